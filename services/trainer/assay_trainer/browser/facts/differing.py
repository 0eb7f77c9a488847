"""What differs between the configurations of runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.facts.summary import flat_config, read_config

_FEWEST, _MOST = 2, 5
_MOST_SHOWN = 500


@dataclass(frozen=True)
class DifferingSetting:
    """A setting with its value in each run; empty where a run lacks it."""

    name: str
    values: list[str]


def check_number_of_runs(names: Sequence[str]) -> None:
    """Check that two to five different runs are named.

    Raises:
        InvalidInput: there are fewer, more, or one twice.
    """
    if not _FEWEST <= len(names) <= _MOST or len(set(names)) < len(names):
        raise InvalidInput(
            f"{len(names)} runs are chosen, {len(set(names))} of them different",
            field="run",
            hint=f"choose {_FEWEST} to {_MOST} different runs",
        )


def differing_settings(runs: Sequence[RunFolder]) -> list[DifferingSetting]:
    """Return the settings that are not equal in all runs, in the order of their names."""
    flat = []
    for run in runs:
        settings = read_config(run)[0].get("config", {})
        flat.append(dict(flat_config(settings)) if isinstance(settings, dict) else {})
    names = sorted({name for one in flat for name in one} - {"name"})
    found = [DifferingSetting(name, [one.get(name, "") for one in flat]) for name in names]
    return [one for one in found if len(set(one.values)) > 1][:_MOST_SHOWN]
