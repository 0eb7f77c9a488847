"""How many samples of a side failed, as a report tells it next to a verdict."""

from collections.abc import Iterable

from assay_shared.types.wire import Wire


class FailedCount(Wire):
    """The failed samples of a policy on a set, and all of its samples there."""

    name: str
    num_failed: int
    num_samples: int

    @property
    def text(self) -> str:
        """The number and the share: 12 of 240 samples of sft (5.0%)."""
        share = f"{100 * self.num_failed / self.num_samples:.1f}%"
        return f"{self.num_failed:,} of {self.num_samples:,} samples of {self.name} ({share})"


def failed_text(counts: Iterable[FailedCount]) -> str:
    """Return a sentence's beginning on the policies with samples without a score; "" if none."""
    found = [one.text for one in counts if one.num_failed]
    return f"{' and '.join(found)} have no score" if found else ""
