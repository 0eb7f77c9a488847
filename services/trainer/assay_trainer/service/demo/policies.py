"""The policy before and after GRPO, asked the same: inference serves the one, then the other."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

from assay_shared.clients import InferenceClient, RewardClient
from assay_shared.errors import InvalidInput, NotFound, Overloaded, TimedOut
from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import (
    Failure,
    FolderWeights,
    GenerateRequest,
    GroupRequest,
    Message,
    PolicyVersion,
    Priority,
    SamplingParams,
    Scored,
    Task,
    Unscored,
    WeightUpdate,
)
from assay_shared.weights import checkpoint
from assay_trainer.config import RunConfig
from assay_trainer.evaluation.evaluator import TaskEvaluation
from assay_trainer.rollouts.worker import run_group

#: Of a prompt that a person types.
MOST_CHARACTERS = 2000
#: Held-out tasks to choose from.
_MOST_TASKS = 40
_NUM_SAMPLES = 4
_MOST_TOKENS = 256
#: Of both policies together: two loads of weights, and their answers.
_LIMIT_S = 120.0
_WORKER = "demo"


@dataclass(frozen=True)
class PolicyAnswer:
    """An answer; `reward` and `outcome` are None and empty if nothing can score it."""

    text: str
    reward: float | None = None
    outcome: str = ""
    failure: Failure | None = None


@dataclass(frozen=True)
class AskedPolicy:
    """A policy's answers: `name` is before or after, `digest` that of the weights behind them."""

    name: str
    stage: str
    digest: str
    answers: Sequence[PolicyAnswer]

    @property
    def mean_reward(self) -> float | None:
        """The mean over scored answers; None without any."""
        found = [one.reward for one in self.answers if one.reward is not None]
        return sum(found) / len(found) if found else None


class PolicyPair:
    """Asks both policies of a finished run; one question at a time."""

    def __init__(self, run: RunFolder, config: RunConfig, urls: dict[str, str]) -> None:
        """Store the run and the addresses of inference and reward."""
        self._run = run
        self._config = config
        self._urls = urls
        self._asking = asyncio.Lock()

    @property
    def stages(self) -> dict[str, str]:
        """The stages whose models are compared; without GRPO only the first."""
        config = self._config
        before = "dpo" if config.dpo else "sft" if config.sft else "initial"
        return {"before": before} | ({"after": "grpo"} if config.grpo else {})

    @property
    def why_closed(self) -> str:
        """Why nothing can be asked yet; empty once the run has finished."""
        state = self._run.read_status_or_damage().state
        if state == "finished":
            return ""
        if state in ("failed", "stopped"):
            return f"The run {state}: there is no policy after it."
        return "The run is still training. Both policies answer once it has finished."

    def tasks(self) -> list[Task]:
        """Return the first held-out tasks of the run's last evaluation; reads files."""
        return [] if self.why_closed else list(_held_out(self._run.path))

    async def ask(self, prompt: str, task_id: str) -> tuple[Task | None, list[AskedPolicy]]:
        """Return the answers of both policies to a held-out task, or to a prompt without a task.

        Raises:
            NotFound: there is no such task.
            InvalidInput: there is neither task nor prompt, or inference refuses the prompt.
            Overloaded: another question is being answered.
            TimedOut: the answers take too long.
        """
        if self.why_closed:
            raise NotFound(self.why_closed)
        task = self._found(task_id, await asyncio.to_thread(self.tasks)) if task_id else None
        if task is None and not prompt.strip():
            raise InvalidInput("write a prompt, or choose a task", field="prompt")
        if self._asking.locked():
            raise Overloaded("another question is being answered", retry_after_s=2.0)
        try:
            async with self._asking, asyncio.timeout(_LIMIT_S):
                return task, [
                    await self._answers(name, stage, prompt, task)
                    for name, stage in self.stages.items()
                ]
        except TimeoutError:
            raise TimedOut(f"no answer within {_LIMIT_S:.0f} s") from None

    def _found(self, task_id: str, tasks: Sequence[Task]) -> Task:
        for task in tasks:
            if task.id == task_id:
                return task
        raise NotFound(f"no held-out task {task_id!r:.200}", field="task")

    async def _answers(self, name: str, stage: str, prompt: str, task: Task | None) -> AskedPolicy:
        async with InferenceClient(self._urls["inference"]) as inference:
            digest = await self._serve(inference, self._run.path / "models" / stage)
            if task is not None:
                found = await self._scored(inference, task)
            else:
                message = Message(role="user", content=prompt)
                request = GenerateRequest(messages=(message,), sampling=self._sampling)
                completions = (await inference.generate(request)).completions
                found = [PolicyAnswer(one.text) for one in completions]
        return AskedPolicy(name, stage, digest, found)

    async def _serve(self, inference: InferenceClient, folder: Path) -> str:
        """Have inference serve a stage's model; return its digest."""
        digest = await asyncio.to_thread(checkpoint.digest, folder)
        served = (await inference.weight_status()).policy
        if served is None or served.digest != digest:
            version = 1 + (served.version if served else 0)
            update = WeightUpdate(
                source=FolderWeights(path=str(folder)),
                policy=PolicyVersion(version=version, digest=digest),
            )
            await inference.update_weights(update)
        return digest

    async def _scored(self, inference: InferenceClient, task: Task) -> list[PolicyAnswer]:
        """Return answers with rewards, sampled and scored as a rollout worker does it."""
        request = GroupRequest(
            key=f"{self._run.path.name}/asked/{uuid4().hex}",
            run=self._run.path.name,
            task=task,
            sampling=self._sampling,
            priority=Priority.INTERACTIVE,
        )
        async with RewardClient(self._urls["reward"]) as reward:
            group = await run_group(request, inference, reward, _WORKER)
        rollouts = group.group.rollouts
        if group.failure is not None:
            texts = [one.text for one in rollouts] or [""]
            return [PolicyAnswer(text, failure=group.failure) for text in texts]
        return [
            _answer(rollout.text, one) for rollout, one in zip(rollouts, group.rewards, strict=True)
        ]

    @property
    def _sampling(self) -> SamplingParams:
        config = self._config.evaluation
        return SamplingParams(
            n=_NUM_SAMPLES,
            max_tokens=min(config.max_tokens, _MOST_TOKENS),
            temperature=config.temperature,
            stop=config.stop,
            seed=self._config.seed,
        )


def _answer(text: str, reward: Scored | Unscored) -> PolicyAnswer:
    if isinstance(reward, Scored):
        return PolicyAnswer(text, reward.value, reward.outcome.value)
    return PolicyAnswer(text, failure=reward.failure)


@cache
def _held_out(run: Path) -> tuple[Task, ...]:
    """Return tasks of the evaluation before training, in its order."""
    folder = RunFolder(run)
    evaluated = TaskEvaluation.model_validate_json(folder.evaluation("before").read_text())
    wanted = {one.task_id: None for one in evaluated.results[:_MOST_TASKS]}
    found: dict[str, Task] = {}
    with folder.tasks.open() as lines:
        for line in lines:
            task = Task.model_validate_json(line)
            if task.id in wanted:
                found[task.id] = task
    return tuple(found[one] for one in wanted if one in found)
