"""The findings of a run's search for leaks, from leaks.json."""

from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from assay_shared.runs.regular_file import read_regular, reason_of
from assay_shared.settings.validation import message_of

_MOST_BYTES = 64 * 2**20


class StoredMatch(BaseModel):
    """A held-out text in a training task."""

    held_out_id: str
    training_id: str
    value: float
    text: str


class StoredFinding(BaseModel):
    """What a method found in a part of the tasks."""

    part: str
    method: str
    num_compared: int
    num_found: int
    share: float
    samples: list[StoredMatch] = []


class StoredControl(BaseModel):
    """Planted leaks of a kind, all of which the search found."""

    num_planted: int


class StoredLeaks(BaseModel):
    """The content of leaks.json."""

    num_training: int
    num_held_out: int
    num_leaked: int
    leaked: list[str] = []
    findings: list[StoredFinding] = Field(default=[], max_length=100)
    controls: list[StoredControl] = []

    @property
    def num_planted(self) -> int:
        return sum(one.num_planted for one in self.controls)

    @property
    def looked_for_near(self) -> bool:
        """Whether near duplicates were searched for."""
        return any(one.method.startswith("near") for one in self.findings)


def read_leaks(file: Path) -> tuple[StoredLeaks | None, str]:
    """Return the findings, or why they cannot be read; neither if there is no file."""
    try:
        return StoredLeaks.model_validate_json(read_regular(file, _MOST_BYTES)), ""
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"leaks.json cannot be read: {reason_of(error)}"
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))[:200]
        return None, f"leaks.json cannot be read: {field}: {message_of(first):.200}"
