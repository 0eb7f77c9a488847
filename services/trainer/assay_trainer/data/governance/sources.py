"""The register of sources that must not be used, with the reason: sources.yaml."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from assay_shared.errors import DatasetError
from assay_shared.settings.run_file import Config, load_config
from assay_trainer.data.governance.manifest import digest_of

_REGISTER = Path(__file__).parent / "sources.yaml"
#: A user's own register, in the folder of external datasets.
OWN_REGISTER = "sources.yaml"


class DeprecatedSource(Config):
    """A source by the name of a hub's dataset, or by the SHA-256 of a file or of its rows."""

    name: str | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    reason: str = Field(min_length=1)
    #: What to use in its place.
    instead: str | None = None


class SourceRegister(Config):
    """All entries of a register."""

    deprecated: tuple[DeprecatedSource, ...] = ()


@lru_cache(maxsize=8)
def _read(path: Path) -> SourceRegister:
    return load_config(SourceRegister, path)


def refuse_deprecated(
    names: Iterable[str], data_folder: Path | None, files: Iterable[Path] = ()
) -> None:
    """Check the names and digests of a source. Files are read if a register has digests.

    Raises:
        DatasetError: a register says that one of them is deprecated; tells why.
    """
    own = data_folder / OWN_REGISTER if data_folder is not None else None
    entries = list(_read(_REGISTER).deprecated)
    if own is not None and own.exists():
        entries += _read(own).deprecated
    given = {name.casefold() for name in names}
    if any(one.sha256 for one in entries):
        given |= {digest_of(file) for file in files}
    for one in entries:
        if {key.casefold() for key in (one.name, one.sha256) if key} & given:
            raise DatasetError(
                f"{one.name or one.sha256} is deprecated: {one.reason}",
                hint=f"use {one.instead}" if one.instead else None,
            )
