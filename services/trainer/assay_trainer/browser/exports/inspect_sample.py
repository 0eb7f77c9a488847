"""A sample in the words of Inspect's logs: one file of an .eval log, and its line in the list."""

import re
from collections.abc import Iterator
from typing import Any

from assay_shared.types import FinishReason, Task
from assay_trainer.browser.samples.detail import SampleDetail
from assay_trainer.browser.samples.evidence import evidence_parts, evidence_text
from assay_trainer.rollouts.rollout_log import TrainedGroup

#: Characters that a name within a zip file keeps.
_ODD = re.compile(r"[^\w.:+-]")
_MOST_NAME, _MOST_SHOWN = 150, 1000
_STOPS = {FinishReason.STOP: "stop", FinishReason.LENGTH: "max_tokens"}
#: The score with the whole reward, next to one for each component.
REWARD = "reward"


class SampleNames:
    """The names of samples in a log: a group is an id, and its samples are the id's epochs."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._last: tuple[TrainedGroup | None, str] = None, ""

    def of(self, one: SampleDetail) -> tuple[str, int]:
        """Return the id and the epoch of the next sample; samples of a group follow each other."""
        if self._last[0] is not one.group:
            self._last = one.group, self._new(one.group.step, one.task.id)
        return self._last[1], max(1, one.place + 1)

    def _new(self, step: int, task: str) -> str:
        name = f"step-{step:05}-{_ODD.sub('_', task)[:_MOST_NAME]}"
        number = self._groups[name] = self._groups.get(name, 0) + 1
        return name if number == 1 else f"{name}#{number}"


def inspect_sample(name: tuple[str, int], model: str, one: SampleDetail) -> dict[str, Any]:
    """Return the content of a sample's file: Inspect's `EvalSample`.

    A sample without a score has an error and no scores.
    """
    given = [message.model_dump() for message in one.task.messages]
    return {
        "id": name[0],
        "epoch": name[1],
        "input": given,
        "target": _target(one.task),
        "messages": [*given, *_replies(model, one)],
        "output": _output(model, one),
        "scores": scores(one),
        "metadata": _metadata(one),
        "model_usage": {model: _usage(one)} if one.rollout else {},
        "uuid": f"{name[0]}/{name[1]}",
        "error": None if one.scored else _error(one),
    }


def inspect_summary(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample's line in the list of samples: Inspect's `EvalSampleSummary`."""
    error = sample["error"]
    scores = sample["scores"]
    shown = (
        {name: {**one, "explanation": None, "metadata": None} for name, one in scores.items()}
        if scores
        else None
    )
    return {
        "id": sample["id"],
        "epoch": sample["epoch"],
        "input": [{**one, "content": one["content"][:_MOST_SHOWN]} for one in sample["input"][-1:]],
        "target": sample["target"][:_MOST_SHOWN],
        "metadata": {
            name: value[:_MOST_SHOWN] if isinstance(value, str) else value
            for name, value in sample["metadata"].items()
            if isinstance(value, str | int | float)
        },
        "scores": shown,
        "model_usage": sample["model_usage"],
        "uuid": sample["uuid"],
        "error": None if error is None else error["message"][:_MOST_SHOWN],
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def scores(one: SampleDetail) -> dict[str, Any] | None:
    """Return the reward and each of its components as scores; None without a reward."""
    if one.scored is None:
        return None
    found = {
        REWARD: {
            "value": one.scored.value,
            "explanation": "\n\n".join(
                [one.scored.outcome.value, evidence_text(evidence_parts(one))]
            ).strip(),
            "metadata": {"evidence": one.scored.evidence, "measures": one.scored.measures},
        }
    }
    for part in one.scored.components:
        name = part.name if part.name != REWARD else f"{REWARD} (component)"
        found[name] = {
            "value": part.value,
            "explanation": part.detail,
            "metadata": {"weight": part.weight},
        }
    return found


def _target(task: Task) -> str:
    return task.reference or task.gold or ""


def _replies(model: str, one: SampleDetail) -> Iterator[dict[str, Any]]:
    """Yield the turns of an answer, and what the environment said to each."""
    if one.rollout is None:
        return
    if not one.rollout.turns:
        yield _assistant(model, one.rollout.text)
    for turn in one.rollout.turns:
        yield _assistant(model, turn.text)
        if turn.observation:
            yield {"role": "user", "content": turn.observation}


def _assistant(model: str, text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "source": "generate", "model": model}


def _output(model: str, one: SampleDetail) -> dict[str, Any]:
    if one.rollout is None:
        return {"model": model, "choices": []}
    text = one.rollout.text
    choice = {
        "message": _assistant(model, text),
        "stop_reason": _STOPS[one.rollout.finish_reason],
    }
    return {"model": model, "choices": [choice], "completion": text, "usage": _usage(one)}


def _usage(one: SampleDetail) -> dict[str, int]:
    read = len(one.group.group.prompt_token_ids)
    drawn = one.rollout.num_sampled if one.rollout else 0
    if one.rollout is not None:
        read += len(one.rollout.token_ids) - drawn
    return {"input_tokens": read, "output_tokens": drawn, "total_tokens": read + drawn}


def _metadata(one: SampleDetail) -> dict[str, Any]:
    return {
        "step": one.group.step,
        "task": one.task.id,
        "dataset": one.task.dataset,
        "place": one.place,
        "key": one.group.group.key,
        "kept": one.kept,
        "reason": one.reason,
        "outcome": one.outcome,
        "failure_class": one.failure.failure_class.value if one.failure else "",
        "advantage": one.advantage,
        "no_advantage": one.no_advantage,
        "policy_versions": [version for version, _ in one.versions],
        "scorer": one.group.scorer,
        "worker": one.group.worker,
        "tags": one.task.tags,
    }


def _error(one: SampleDetail) -> dict[str, str]:
    """Return Inspect's `EvalError` of a sample without a score."""
    failure = one.failure
    told = "no reward, and no reason is stored"
    if failure is not None:
        told = f"{failure.failure_class.value} in {failure.service}, "
        told += f"{failure.attempts} attempts: {failure.message}"
    whole = "\n\n".join([told, evidence_text(evidence_parts(one))]).strip()
    return {"message": told, "traceback": whole, "traceback_ansi": whole}
