"""The work of the command, once model and reward service answer: from seeds to scored answers."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from assay_shared.clients import RewardClient
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import PromptFormat, Role, Task
from assay_trainer.data.governance.manifest import digest_of
from assay_trainer.demonstrations.instructions.answering import AnswerDraft, Answerer, ToAnswer
from assay_trainer.demonstrations.instructions.asking_model.asker import Asker, OnAsked
from assay_trainer.demonstrations.instructions.asking_model.channel_check import (
    ChannelCheck,
    check_channel,
)
from assay_trainer.demonstrations.instructions.asking_model.ledger import ReplyLedger
from assay_trainer.demonstrations.instructions.given.constitution import Constitution
from assay_trainer.demonstrations.instructions.given.instructions_config import InstructionsConfig
from assay_trainer.demonstrations.instructions.given.seeds import Seeds
from assay_trainer.demonstrations.instructions.inventing import Invented, Inventor
from assay_trainer.demonstrations.instructions.scoring import AnswerScorer
from assay_trainer.demonstrations.instructions.screening.filters import Filters
from assay_trainer.demonstrations.instructions.screening.leaks import HeldOutPrompts
from assay_trainer.demonstrations.instructions.screening.left_out import LeftOutTexts
from assay_trainer.demonstrations.instructions.writing import Made
from assay_trainer.evaluate.answers.sources import MAX_CONNECTIONS, RETRY, Source
from assay_trainer.evaluate.playing.player import Answering, PlayUnit
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.verification.model_tokens import ModelTokens

#: Scores later answers to new instructions, against the answer that became the row.
_RUBRIC = "qa.verified"


class _Reward(RewardClient):
    max_connections = MAX_CONNECTIONS


@dataclass(frozen=True)
class Given:
    """All that is given before a model is asked."""

    config: InstructionsConfig
    seeds: Seeds
    tasks: Sequence[Task]
    constitution: Constitution | None
    filters: Filters
    held_out: HeldOutPrompts
    #: Null of a server.
    tokens: ModelTokens | None
    policy: EvaluatedPolicy
    #: SHA-256 of all inputs.
    digest: str


@dataclass
class Making:
    """The work, with what it counts."""

    given: Given
    output: Path
    settings: ServiceSettings
    concurrency: int
    max_failed: int
    on_asked: OnAsked
    skip_failed: bool = False
    left_out: LeftOutTexts = field(default_factory=LeftOutTexts)

    async def make(self, source: Source) -> Made:
        """Return what was made.

        Raises:
            AssayError: something is down, or the channel is not clean; stored replies stay.
        """
        given = self.given
        ledger = ReplyLedger(self.output)
        channel = await self._channel(source.answering)
        asker = Asker(
            source.answering,
            ledger,
            channel,
            self.concurrency,
            self.max_failed,
            self.on_asked,
            self.skip_failed,
        )
        inventor = Inventor(
            given.config,
            given.seeds.seeds,
            asker,
            given.filters,
            given.held_out,
            self.left_out,
            lambda number: self.on_asked("new", number, given.config.invention.wanted),
        )
        invented = await inventor.invent()
        items = [*map(self._new, invented), *map(self._given, given.tasks)]
        answerer = Answerer(
            given.config,
            given.seeds.seeds,
            given.constitution,
            asker,
            given.filters,
            given.held_out,
            self.left_out,
        )
        candidates = await answerer.answer(items)
        best, scorer = await self._scored(candidates, ledger)
        numbers = self._numbers(ledger, inventor, invented, candidates, scorer)
        planted: dict[str, JsonValue] = {
            "instructions": inventor.known.check(),
            "held_out": given.held_out.near.check(),
        }
        facts = self._facts(ledger, asker, channel, planted) | inventor.facts
        self.left_out.write(self.output)
        return Made(best, facts, numbers, given.policy.name, len(items), self.settings.data)

    def _numbers(
        self,
        ledger: ReplyLedger,
        inventor: Inventor,
        invented: Sequence[Invented],
        candidates: Sequence[AnswerDraft],
        scorer: AnswerScorer,
    ) -> dict[str, JsonValue]:
        """Return the numbers for gates."""
        return {
            "num_scored_tasks": scorer.num_scored_tasks,
            "num_requests": len(ledger.used),
            "num_sampled_tokens": sum(one.num_tokens for one in ledger.used),
            "num_proposed_instructions": inventor.num_proposed,
            "num_new_instructions": len(invented),
            "num_given_tasks": len(self.given.tasks),
            "num_answered": len({one.item.task.id for one in candidates}),
            "mean_score": sum(scorer.scores) / len(scorer.scores) if scorer.scores else None,
            "left_out": _plain(self.left_out.counts),
        }

    async def _channel(self, answering: Answering) -> ChannelCheck:
        """Return the check of raw prompts, after the built-in ones went through."""
        given = self.given
        if given.config.prompt_format is not PromptFormat.RAW:
            return ChannelCheck(not_checked="prompts go through the model's chat template")
        if given.tokens is None or answering.version is None:
            return ChannelCheck(not_checked="a server does not tell the ids that its engine read")
        generator = answering.generator(PlayUnit(Task(), 0, 0, 1, 1), "channel")
        return await check_channel(generator, given.tokens, answering.version)

    def _new(self, one: Invented) -> ToAnswer:
        scoring = self.given.config.scoring
        task = Task(
            id=one.id,
            dataset=self.given.config.name,
            role=Role.TRAIN,
            prompt=one.text,
            rubric=_RUBRIC if scoring is None else scoring.rubric,
            tags={"domain": "instructions"},
        )
        return ToAnswer(task, is_given=False, request=one.request)

    def _given(self, task: Task) -> ToAnswer:
        return ToAnswer(task, is_given=True)

    async def _scored(
        self, candidates: Sequence[AnswerDraft], ledger: ReplyLedger
    ) -> tuple[list[AnswerDraft], AnswerScorer]:
        async with AsyncExitStack() as stack:
            client = _Reward.from_settings(self.settings, retry=RETRY)
            scorer = AnswerScorer(
                self.given.config.scoring,
                f"instructions/{self.given.digest[:16]}",
                await stack.enter_async_context(client),
                ledger,
                self.left_out,
                self.concurrency,
                self.on_asked,
                self.skip_failed,
            )
            return await scorer.best(candidates), scorer

    def _facts(
        self,
        ledger: ReplyLedger,
        asker: Asker,
        channel: ChannelCheck,
        planted: dict[str, JsonValue],
    ) -> dict[str, JsonValue]:
        """Return what the manifest tells of the making."""
        given = self.given
        refused = next(iter((asker.refused | asker.failed).values()), None)
        return {
            "command": "instructions",
            "policy": given.policy.model_dump(mode="json"),
            "prompt_format": str(given.config.prompt_format),
            "inputs_digest": given.digest,
            "ledger_digest": digest_of(ledger.path),
            "num_seeds": len(given.seeds.seeds),
            "seeds_left_out": [list(one) for one in given.seeds.left_out[:20]],
            "num_seeds_left_out": len(given.seeds.left_out),
            "held_out_sets": dict(given.held_out.counts),
            "planted_near_duplicates_found": planted,
            "channel": channel.facts(ledger.used),
            "left_out": _plain(self.left_out.counts),
            "first_request_without_reply": refused,
        }


def _plain(counts: dict[str, dict[str, int]]) -> dict[str, JsonValue]:
    return {what: dict(reasons) for what, reasons in counts.items()}
