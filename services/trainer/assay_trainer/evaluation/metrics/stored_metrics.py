"""Checks of the stored numbers of an evaluation against its samples."""

import json
from collections import Counter
from collections.abc import Mapping
from math import isclose
from pathlib import Path

from assay_shared.errors import DatasetError
from assay_trainer.evaluation.metrics.outcomes import known_tokens, scored
from assay_trainer.evaluation.records.folder import EvaluationFolder, StoredEvaluation, StoredSet

_HINT = "restore samples.jsonl; or give the same `assay evaluate` again, which writes metrics.json"


def check_metrics(stored: StoredEvaluation) -> None:
    """Check each metrics.json of a finished evaluation against the samples next to it.

    Raises:
        DatasetError: one cannot be read, or a number is another; names the file and the field.
    """
    folder = EvaluationFolder(stored.path)
    for name, one in stored.sets.items():
        path = folder.metrics(name)
        if stored.is_finished and path.is_file():
            _check(path, one)


def _check(path: Path, stored: StoredSet) -> None:
    try:
        overall = json.loads(path.read_bytes())["overall"]
        told = {
            "num_tasks": overall["num_tasks"],
            "num_samples": overall["num_samples"],
            "num_failed": overall["num_failed"],
            "reward": overall["reward"],
            "costs.tokens.total": _total(overall["costs"]),
            **{f"outcomes.{key}": number for key, number in overall["outcomes"].items()},
        }
    except KeyError as error:
        raise DatasetError(f"{path} lacks a number", field=str(error.args[0]), hint=_HINT) from None
    except (TypeError, AttributeError):
        raise DatasetError(
            f"{path} is not of the form that `assay evaluate` writes", field="overall", hint=_HINT
        ) from None
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}", hint=_HINT) from None
    found = _numbers(stored)
    for name in {**told, **found}:
        old, new = told.get(name), found.get(name)
        if not _are_equal(old, new):
            raise DatasetError(
                f"{path}: {old} is not the number of samples.jsonl there, which is {new}",
                field=f"overall.{name}",
                hint=_HINT,
            )


def _total(costs: Mapping[str, Mapping[str, float] | None] | None) -> float | None:
    tokens = costs["tokens"] if costs is not None else None
    return tokens["total"] if tokens is not None else None


def _numbers(stored: StoredSet) -> dict[str, float | None]:
    good = scored(stored.samples)
    rewards = [one.reward for one in good if one.reward is not None]
    tokens = known_tokens(good)
    return {
        "num_tasks": len(stored.tasks),
        "num_samples": len(stored.samples),
        "num_failed": len(stored.samples) - len(good),
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "costs.tokens.total": sum(tokens) if good and tokens is not None else None,
        **{f"outcomes.{key}": number for key, number in Counter(o.outcome for o in good).items()},
    }


def _are_equal(old: object, new: float | None) -> bool:
    if not isinstance(old, int | float) or new is None:
        return old is None and new is None
    return isclose(old, new, rel_tol=1e-9, abs_tol=1e-12)
