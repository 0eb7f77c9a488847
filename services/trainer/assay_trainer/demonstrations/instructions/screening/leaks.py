"""Prompts that no row may have: those of registered test sets, and of given held-out sets."""

from collections.abc import Sequence
from pathlib import Path

from assay_trainer.curation.duplicates import opened_set
from assay_trainer.data.governance.test_only import known_prompts
from assay_trainer.data.prompt_hashes import PromptHashes, keys_of, text_of
from assay_trainer.demonstrations.instructions.screening.novelty import KnownInstructions


class HeldOutPrompts:
    """Finds prompts of test sets and of held-out sets in texts, and texts near to the latter."""

    def __init__(
        self, against: Sequence[Path], similarity: float, data_folder: Path | None
    ) -> None:
        self._tests = known_prompts(data_folder)
        opened = [(path.name, opened_set(path, data_folder)) for path in against]
        self._held_out = PromptHashes(
            [(name, [keys_of(one.prompt, text_of(one)) for one in tasks]) for name, tasks in opened]
        )
        self.near = KnownInstructions(similarity)
        for name, tasks in opened:
            for task in tasks:
                self.near.add(f"{task.id} of {name}", task.prompt)

    @property
    def counts(self) -> dict[str, int]:
        """The number of prompts of each set."""
        return self._tests.counts | self._held_out.counts

    def reason(self, *texts: str) -> tuple[str, str] | None:
        """Return the kind of a leak in texts, and the set; None without one."""
        if name := self._tests.find(*texts):
            return "test_set", name
        if name := self._held_out.find(*texts):
            return "held_out", name
        return None

    def reason_of_instruction(self, text: str) -> tuple[str, str] | None:
        """Return the same, also of an instruction that is near to a held-out prompt."""
        found = self.reason(text)
        if found is None and (near := self.near.find(text)):
            found = "near_held_out", near.name
        return found
