"""Answers: sampled, and revised by a constitution, each filtered before the next step."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assay_shared.types import Message, Task
from assay_trainer.data.words import words_of
from assay_trainer.demonstrations.instructions.asking_model.asker import Asker, request_for
from assay_trainer.demonstrations.instructions.asking_model.ledger import LedgerEntry
from assay_trainer.demonstrations.instructions.asking_model.prompts import (
    ModelPrompt,
    ask_for_answer,
    ask_for_critique,
    ask_for_revision,
)
from assay_trainer.demonstrations.instructions.given.constitution import Constitution, Principle
from assay_trainer.demonstrations.instructions.given.instructions_config import (
    InstructionsConfig,
    RevisionConfig,
)
from assay_trainer.demonstrations.instructions.given.seeds import Seed
from assay_trainer.demonstrations.instructions.screening.filters import Filters
from assay_trainer.demonstrations.instructions.screening.leaks import HeldOutPrompts
from assay_trainer.demonstrations.instructions.screening.left_out import LeftOutTexts

#: Shorter texts are in ordinary answers too.
_LEAST_REPEATED = 6


@dataclass(frozen=True)
class ToAnswer:
    """A task whose prompt is answered; one that is given has its own rubric."""

    task: Task
    is_given: bool
    #: The request that the instruction comes from.
    request: str = ""


@dataclass(frozen=True)
class Revised:
    """A step of a revision."""

    principle: str
    critique: str
    answer: str


@dataclass(frozen=True)
class AnswerDraft:
    """An answer to a task: as sampled, with its revisions, and with its score."""

    key: str
    item: ToAnswer
    asked: ModelPrompt
    first: str
    revisions: tuple[Revised, ...] = ()
    score: float | None = None

    @property
    def text(self) -> str:
        """The answer as it is after all revisions."""
        return self.revisions[-1].answer if self.revisions else self.first


@dataclass
class Answerer:
    """Asks for answers, critiques and revised answers."""

    config: InstructionsConfig
    seeds: Sequence[Seed]
    constitution: Constitution | None
    asker: Asker
    filters: Filters
    held_out: HeldOutPrompts
    left_out: LeftOutTexts
    _answered_seeds: list[Seed] = field(init=False)

    def __post_init__(self) -> None:
        self._answered_seeds = [one for one in self.seeds if one.response]

    async def answer(self, items: Sequence[ToAnswer]) -> list[AnswerDraft]:
        """Return the answers that are left after all revisions, in the order of the tasks.

        Raises:
            AssayError: requests had no reply.
        """
        found = await self._first(items)
        if self.config.revision is not None and self.constitution is not None:
            for step in range(self.config.revision.principles):
                found = await self._revised(found, step, self.config.revision, self.constitution)
        return found

    async def _first(self, items: Sequence[ToAnswer]) -> list[AnswerDraft]:
        plan = self.config.answers
        asked = [
            AnswerDraft(f"answer/{item.task.id}/{at}", item, self._prompt(item), "")
            for item in items
            for at in range(plan.samples)
        ]
        replies = await self.asker.ask(
            "answers", [request_for(one.key, one.asked, plan, self.config.seed) for one in asked]
        )
        found = []
        for one in asked:
            reply = replies.get(one.key)
            if self._is_kept("answer", one, one.key, reply):
                assert reply is not None
                found.append(replace(one, first=reply.text.strip()))
        return found

    def _prompt(self, item: ToAnswer) -> ModelPrompt:
        plan = self.config.answers
        rng = random.Random(f"{self.config.seed}/{item.task.id}/shown")
        number = min(plan.shown, len(self._answered_seeds))
        shown = rng.sample(self._answered_seeds, number)
        history = item.task.history
        if plan.system is not None:
            rest = (one for one in history if one.role != "system")
            history = (Message(role="system", content=plan.system), *rest)
        return ask_for_answer(self.config.prompt_format, item.task.prompt, shown, history)

    async def _revised(
        self,
        candidates: Sequence[AnswerDraft],
        step: int,
        plan: RevisionConfig,
        constitution: Constitution,
    ) -> list[AnswerDraft]:
        """Return the candidates that a critique and a revision were made of."""
        form, seed = self.config.prompt_format, self.config.seed
        principles = {one.key: self._principle(one, step, constitution) for one in candidates}
        names = {one.key: f"{step}/{one.key}" for one in candidates}
        requests = []
        for one in candidates:
            ask = ask_for_critique(
                form, one.asked, one.item.task.prompt, one.text, principles[one.key]
            )
            requests.append(request_for(f"critique/{names[one.key]}", ask, plan, seed))
        replies = await self.asker.ask("critiques", requests)
        critiques: dict[str, str] = {}
        for one in candidates:
            key = f"critique/{names[one.key]}"
            reply = replies.get(key)
            # A critique that was cut off can be used all the same.
            if self._is_kept("critique", one, key, reply, is_answer=False):
                assert reply is not None
                critiques[one.key] = reply.text.strip()
        left = [one for one in candidates if one.key in critiques]
        requests = []
        for one in left:
            told = (one.item.task.prompt, one.text, principles[one.key], critiques[one.key])
            ask = ask_for_revision(form, one.asked, *told)
            requests.append(request_for(f"revision/{names[one.key]}", ask, plan, seed))
        replies = await self.asker.ask("revisions", requests)
        found = []
        for one in left:
            key = f"revision/{names[one.key]}"
            reply = replies.get(key)
            asked = principles[one.key]
            said = (asked.critique_request, asked.revision_request, critiques[one.key])
            if self._is_kept("revision", one, key, reply, said=said):
                assert reply is not None
                made = Revised(principles[one.key].name, critiques[one.key], reply.text.strip())
                found.append(replace(one, revisions=(*one.revisions, made)))
        return found

    def _principle(self, one: AnswerDraft, step: int, constitution: Constitution) -> Principle:
        """Return the principle of a step: of one answer, all differ as far as there are enough."""
        known = list(constitution.principles)
        random.Random(f"{self.config.seed}/{one.key}/principles").shuffle(known)
        return known[step % len(known)]

    def _is_kept(
        self,
        what: str,
        one: AnswerDraft,
        key: str,
        reply: LedgerEntry | None,
        *,
        is_answer: bool = True,
        said: Sequence[str] = (),
    ) -> bool:
        """Return True for a text that is kept; count the reason of another one.

        An answer that repeats one of `said`, the texts of its request, answers nothing.
        """
        if reply is None:
            self.left_out.add(what, one.key, *self.asker.why_no_reply(key), "")
            return False
        if reply.num_characters > len(reply.text):
            reason: str | None = "too_long"
        elif is_answer:
            reason = self.filters.of_answer(reply.text, reply.truncated)
            if reason is None and words_of(reply.text) == words_of(one.item.task.prompt):
                reason = "same_as_instruction"
            if reason is None and any(_repeats(reply.text, one) for one in said):
                reason = "repeats_request"
        else:
            reason = self.filters.of_any(reply.text)
        details = [reply.text]
        if reason is None and (leak := self.held_out.reason(one.item.task.prompt, reply.text)):
            reason, details = leak[0], [leak[1], reply.text]
        if reason is not None:
            self.left_out.add(what, one.key, reason, *details)
        return reason is None


def _repeats(text: str, said: str) -> bool:
    """Return True if a text has all words of another one, in their order and together."""
    words = words_of(said)
    return (
        len(words) >= _LEAST_REPEATED and f" {' '.join(words)} " in f" {' '.join(words_of(text))} "
    )
