"""The order of an import: what is read, what becomes of it, and where it goes."""

from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import InvalidInput
from assay_trainer.curation.options import ControlTokenRule
from assay_trainer.data.importers.format import PublishedFormat

#: A source of a hub: hub:owner/name.
HUB = "hub:"


@dataclass(frozen=True)
class NearOrder:
    """The search for near duplicates; `jaccard` None leaves it to the number of rows."""

    jaccard: float | None = None
    is_wanted: bool = True
    #: Folders and files of tasks that are not to be in the training rows.
    against: tuple[Path, ...] = ()


@dataclass(frozen=True)
class ImportOrder:
    """An import. `source` is a file, a folder, or hub:owner/name."""

    format: PublishedFormat
    source: str
    output: Path
    split: str | None = None
    config: str | None = None
    revision: str | None = None
    validation_share: float = 0.0
    #: A greater share of refused rows ends the import with an error.
    max_refused_share: float = 0.1
    seed: int = 0
    near: NearOrder = NearOrder()
    data_folder: Path | None = None
    control_tokens: ControlTokenRule = ControlTokenRule.KEEP


def share_of(text: str, option: str, *, takes_whole: bool = False) -> float:
    """Return a share written as 2% or 0.02; 100% only if it `takes_whole`.

    Raises:
        InvalidInput: it is neither, or not from 0 to 1.
    """
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if share == 1 and not takes_whole:
        raise InvalidInput(f"{text!r} is not a share of less than 100%", field=option)
    if not 0 <= share <= 1:
        raise InvalidInput(f"{text!r} is not a share such as 2% or 0.02", field=option)
    return share
