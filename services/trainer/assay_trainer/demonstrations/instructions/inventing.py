"""New instructions, round by round: each round shows some of the instructions made before it."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

from pydantic import JsonValue

from assay_trainer.demonstrations.instructions.asking_model.asker import (
    Asker,
    ModelRequest,
    request_for,
)
from assay_trainer.demonstrations.instructions.asking_model.prompts import ask_for_new, read_new
from assay_trainer.demonstrations.instructions.given.instructions_config import InstructionsConfig
from assay_trainer.demonstrations.instructions.given.seeds import Seed
from assay_trainer.demonstrations.instructions.screening.filters import Filters
from assay_trainer.demonstrations.instructions.screening.leaks import HeldOutPrompts
from assay_trainer.demonstrations.instructions.screening.left_out import LeftOutTexts
from assay_trainer.demonstrations.instructions.screening.novelty import KnownInstructions

#: Rounds without any new instruction that end the search.
_MAX_DRY_ROUNDS = 5
#: Gets the number of new instructions.
OnInvented = Callable[[int], None]


@dataclass(frozen=True)
class Invented:
    """A new instruction, and the request behind it."""

    id: str
    text: str
    request: str


@dataclass
class Inventor:
    """Asks for new instructions until there are as many as wanted, or requests are used up.

    The requests of a round follow from the seed and the rounds before: so a resumed search
    finds the same.
    """

    config: InstructionsConfig
    seeds: tuple[Seed, ...]
    asker: Asker
    filters: Filters
    held_out: HeldOutPrompts
    left_out: LeftOutTexts
    on_invented: OnInvented
    known: KnownInstructions = field(init=False)
    num_requests: int = 0
    num_proposed: int = 0
    _found: list[Invented] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = KnownInstructions(self.config.filters.similarity)
        for number, seed in enumerate(self.seeds, start=1):
            self.known.add(f"seed {number}", seed.instruction)

    @property
    def facts(self) -> dict[str, JsonValue]:
        """The numbers wanted, found, and asked for."""
        return {
            "num_wanted": self.config.invention.wanted,
            "num_new_instructions": len(self._found),
            "num_invention_requests": self.num_requests,
        }

    async def invent(self) -> list[Invented]:
        """Return the new instructions in their order; perhaps fewer than wanted.

        Raises:
            AssayError: requests had no reply.
        """
        plan = self.config.invention
        dry = number = 0
        while len(self._found) < plan.wanted and dry < _MAX_DRY_ROUNDS:
            requests = list(self._round(number))
            if not requests:
                break
            before = len(self._found)
            replies = await self.asker.ask("instructions", requests)
            for request in requests:
                reply = replies.get(request.key)
                if reply is None:
                    why = self.asker.why_no_reply(request.key)
                    self.left_out.add("request", request.key, *why, "")
                    continue
                self._read(request, reply.text, reply.truncated)
            dry = 0 if len(self._found) > before else dry + 1
            number += 1
            self.on_invented(len(self._found))
        return self._found

    def _round(self, number: int) -> Iterator[ModelRequest]:
        """Yield the requests of a round: no more than are needed, and than are allowed."""
        plan = self.config.invention
        needed = ceil((plan.wanted - len(self._found)) / plan.per_request) + 1
        allowed = plan.max_requests - self.num_requests
        for at in range(min(plan.round_requests, needed, allowed)):
            key = f"new/{number}/{at}"
            rng = random.Random(f"{self.config.seed}/{key}/shown")
            seeds = rng.sample(self.seeds, min(plan.seeds_shown, len(self.seeds)))
            made = rng.sample(self._found, min(plan.made_shown, len(self._found)))
            shown = [one.instruction for one in seeds] + [one.text for one in made]
            rng.shuffle(shown)
            asked = ask_for_new(self.config.prompt_format, shown, plan.per_request)
            self.num_requests += 1
            yield request_for(key, asked, plan, self.config.seed)

    def _read(self, request: ModelRequest, reply: str, is_cut: bool) -> None:
        plan = self.config.invention
        proposed = read_new(self.config.prompt_format, reply, is_cut, plan.per_request)
        if leak := self._leak_in_parts(reply, proposed):
            self.left_out.add("reply", request.key, *leak, reply)
            return
        if not proposed:
            self.left_out.add("reply", request.key, "no_instruction", reply)
        for text in proposed:
            if len(self._found) == plan.wanted:
                return
            self.num_proposed += 1
            reason = self._reason(text)
            if reason is None:
                name = f"{self.config.name}/new/{len(self._found)}"
                self.known.add(name, text)
                self._found.append(Invented(name, text, request.key))
            else:
                self.left_out.add("instruction", request.key, *reason, text)

    def _leak_in_parts(self, reply: str, proposed: Sequence[str]) -> tuple[str, str] | None:
        """Return the kind of a leak and the set, if a reply's list goes through a test prompt.

        The parts of such a prompt are no longer known as one.
        """
        for text in proposed:
            if self.held_out.reason(text):
                reply = reply.replace(text, "")
        return self.held_out.reason(reply)

    def _reason(self, text: str) -> tuple[str] | tuple[str, str] | None:
        """Return why a text is refused as an instruction, perhaps with the repeated text's name."""
        kind = self.filters.of_instruction(text)
        if kind is not None:
            return (kind,)
        leak = self.held_out.reason_of_instruction(text)
        if leak is not None:
            return leak
        known = self.known.find(text)
        if known is None:
            return None
        what = "seed" if known.name.startswith("seed ") else "instruction"
        return (f"same_{what}" if known.similarity == 1.0 else f"near_{what}", known.name)
