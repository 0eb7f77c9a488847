"""The export of a run's samples to a file, in the format that the file's name asks for."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from assay_shared.errors import InvalidInput
from assay_trainer.browser.exports.csv_file import write_csv
from assay_trainer.browser.exports.flat_rows import SampleColumn, Value, columns, flat_row
from assay_trainer.browser.exports.inspect_log import LoggedRun, write_inspect_log
from assay_trainer.browser.exports.parquet_file import write_parquet
from assay_trainer.browser.facts.summary import flat_config, read_config
from assay_trainer.browser.opening import OpenedRun
from assay_trainer.browser.reading.filters import SampleFilter
from assay_trainer.browser.samples.detail import SampleDetail

Write = Callable[[Path, OpenedRun, Iterable[SampleDetail]], int]
_MOST_COMPONENTS, _MOST_SETTINGS = 100, 2000


def check_output(path: Path) -> None:
    """Check a file's name before the run is read.

    Raises:
        InvalidInput: the name has no known ending, is a folder's, or is in none.
    """
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder", field="FILE", hint="name a file in it")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(
            f"there is no folder {path.parent}", field="FILE", hint="make it, or name another"
        )
    if path.suffix not in _FORMATS:
        raise InvalidInput(
            f"{path.name!r:.100} has no ending of a known format",
            field="FILE",
            hint=f"end it with {', '.join(_FORMATS)}",
        )


def export_samples(
    opened: OpenedRun, given: SampleFilter, path: Path, told: Callable[[str], None]
) -> int:
    """Write the matching samples to `path` as a whole; return their number.

    `told` gets each group that cannot be read.

    Raises:
        InvalidInput: the file's name cannot be used, or the file cannot be written.
    """
    check_output(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        number = _FORMATS[path.suffix](partial, opened, opened.each(given, told))
        partial.replace(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidInput(f"{path} cannot be written: {reason}", field="FILE") from None
    finally:
        partial.unlink(missing_ok=True)
    return number


def _table(write: Callable[[Path, list[SampleColumn], Iterable[list[Value]]], int]) -> Write:
    def write_table(path: Path, opened: OpenedRun, samples: Iterable[SampleDetail]) -> int:
        names = opened.index.part_names(_MOST_COMPONENTS)
        rows = (flat_row(opened.name, one, names) for one in samples)
        return write(path, columns(names), rows)

    return write_table


def _log(path: Path, opened: OpenedRun, samples: Iterable[SampleDetail]) -> int:
    return write_inspect_log(path, _logged_run(opened), samples)


_FORMATS: dict[str, Write] = {
    ".eval": _log,
    ".csv": _table(write_csv),
    ".parquet": _table(write_parquet),
}


def _logged_run(opened: OpenedRun) -> LoggedRun:
    """Return the head of a run's log; times that are not known are the end of the files."""
    content, config = read_config(opened.folder)
    status = opened.status()
    changed = opened.folder.config.stat().st_mtime
    settings = dict(list(flat_config(content))[:_MOST_SETTINGS])
    return LoggedRun(
        name=opened.name,
        model=_model(opened),
        dataset="" if config is None else config.data.train.kind,
        created=_iso(changed),
        updated=_iso(status.updated or changed),
        metadata={"state": status.state, "step": status.step, "settings": settings},
    )


def _model(opened: OpenedRun) -> str:
    """Return the policy's name: of its repository or folder, or of the run for a new one."""
    config = opened.config
    policy = None if config is None else config.policy
    if policy is None or policy.new is not None:
        return f"assay/{opened.name}"
    return policy.hub or f"assay/{policy.folder.name if policy.folder else opened.name}"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
