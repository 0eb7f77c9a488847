"""Samples as a log of Inspect: a zip file of JSON that `inspect view` and its Python API open.

The layout is Inspect's version 2: `header.json` for the whole log, a file a sample in `samples/`,
and `summaries.json` for the list of samples. Nothing of Inspect is imported.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile

from assay_trainer.browser.exports.inspect_sample import (
    SampleNames,
    inspect_sample,
    inspect_summary,
)
from assay_trainer.browser.samples.detail import SampleDetail

_VERSION = 2


@dataclass(frozen=True)
class LoggedRun:
    """A run as the head of a log: its model by name, its times in ISO 8601, its settings."""

    name: str
    model: str
    dataset: str
    created: str
    updated: str
    metadata: dict[str, Any]


@dataclass
class _Totals:
    """Sums over the written samples, for the results of a log."""

    num_samples: int = 0
    num_scored: int = 0
    max_epoch: int = 0
    by_score: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, sample: dict[str, Any]) -> None:
        self.num_samples += 1
        self.max_epoch = max(self.max_epoch, sample["epoch"])
        self.num_scored += sample["scores"] is not None
        for name, score in (sample["scores"] or {}).items():
            number, total = self.by_score.get(name, (0, 0.0))
            self.by_score[name] = number + 1, total + score["value"]

    def results(self) -> dict[str, Any]:
        """Return Inspect's `EvalResults`: the mean of each score over the samples that have it."""
        scores = [
            {
                "name": name,
                "scorer": name,
                "scored_samples": number,
                "unscored_samples": self.num_samples - number,
                "metrics": {"mean": {"name": "mean", "value": total / number}},
            }
            for name, (number, total) in self.by_score.items()
            if math.isfinite(total)
        ]
        return {
            "total_samples": self.num_samples,
            "completed_samples": self.num_scored,
            "scores": scores,
        }


def write_inspect_log(path: Path, run: LoggedRun, samples: Iterable[SampleDetail]) -> int:
    """Write the samples as an .eval log; return their number.

    A group is a sample id, and the samples of the group are its epochs.
    """
    names, totals = SampleNames(), _Totals()
    with ZipFile(path, "w", ZIP_DEFLATED) as log, TemporaryFile(dir=path.parent) as summaries:
        _add(
            log, "_journal/start.json", {"version": _VERSION, "eval": _eval(run, 0, 0), "plan": {}}
        )
        for one in samples:
            name = names.of(one)
            sample = inspect_sample(name, run.model, one)
            _add(log, f"samples/{name[0]}_epoch_{name[1]}.json", sample)
            summaries.write(b",\n" if totals.num_samples else b"[")
            summaries.write(_json(inspect_summary(sample)))
            totals.add(sample)
        summaries.write(b"]" if totals.num_samples else b"[]")
        _add_file(log, "summaries.json", summaries)
        _add(log, "header.json", _header(run, totals))
    return totals.num_samples


def _header(run: LoggedRun, totals: _Totals) -> dict[str, Any]:
    """Return Inspect's `EvalLog` without its samples."""
    return {
        "version": _VERSION,
        "status": "success",
        "eval": _eval(run, totals.num_samples, totals.max_epoch),
        "plan": {},
        "results": totals.results(),
        "stats": {"started_at": run.created, "completed_at": run.updated},
    }


def _eval(run: LoggedRun, num_samples: int, max_epoch: int) -> dict[str, Any]:
    return {
        "eval_id": run.name,
        "run_id": run.name,
        "created": run.created,
        "task": run.name,
        "task_id": run.name,
        "dataset": {"name": run.dataset, "samples": num_samples},
        "model": run.model,
        "config": {"epochs": max_epoch} if max_epoch else {},
        "metadata": run.metadata,
    }


def _add(log: ZipFile, name: str, content: object) -> None:
    log.writestr(name, _json(content))


def _add_file(log: ZipFile, name: str, content: IO[bytes]) -> None:
    content.seek(0)
    with log.open(name, "w", force_zip64=True) as member:
        copyfileobj(content, member)


def _json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
