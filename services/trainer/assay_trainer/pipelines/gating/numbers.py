"""The numbers of a stage's results, by the stage's kind, as a tree of dictionaries.

A leaf is a plain number, which is exact, or an estimate: `value` with `low` and `high`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay_shared.errors import DatasetError
from assay_trainer.pipelines.gating.changes import num_rows
from assay_trainer.pipelines.gating.moved_weights import moved_shares
from assay_trainer.pipelines.gating.run_numbers import run_numbers
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import (
    AblateStage,
    AnyStage,
    CompareStage,
    HandoffStage,
    MeasuringStage,
    PairsStage,
    RejectionStage,
    SFTDataStage,
    TrainStage,
    VerifyStage,
)

Numbers = dict[str, Any]
_METRICS = "metrics.json"
#: Findings of a comparison as numbers.
_FINDINGS = {"BETTER": 1, "WORSE": -1}


def numbers_of(stage: AnyStage, folder: StageFolder, name: str | None) -> Numbers:
    """Return the numbers of a stage; `name` is the set of an evaluation.

    Raises:
        DatasetError: the stage has written none.
    """
    output = folder.output
    if isinstance(stage, TrainStage):
        return run_numbers(output, moved_shares(output, folder.path / "weights.json"))
    for kind, read in _READERS:
        if isinstance(stage, kind):
            return read(output)
    if isinstance(stage, SFTDataStage | PairsStage | RejectionStage):
        written = _of_metrics(output) if (output / _METRICS).exists() else {}
        return written | {"num_rows": num_rows(output)}
    if isinstance(stage, MeasuringStage):
        name = name or next(iter(stage.sets))
    return _of_metrics(output if name is None else output / name)


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except FileNotFoundError:
        raise DatasetError(f"there is no {file}, so there is no number for a gate") from None
    except ValueError as error:
        raise DatasetError(f"{file} is not JSON: {error}") from None


def _of_metrics(folder: Path) -> Numbers:
    """Return `overall` of a metrics.json, with `strata` next to its numbers."""
    file = folder / _METRICS
    if not file.exists() and (folder / "study.json").exists():
        return _of_study(folder)
    if not file.exists() and (folder / "episodes.jsonl").exists():
        return _of_episodes(folder)
    content = _read(file)
    if not isinstance(content, dict) or not isinstance(content.get("overall"), dict):
        raise DatasetError(f"{file} has no overall")
    strata = {"strata": content["strata"]} if content.get("strata") else {}
    overall: Numbers = content["overall"]
    return overall | strata


def _of_study(folder: Path) -> Numbers:
    """Return what `assay or-debug report` found for its goals, numbered from 1."""
    goals = enumerate(_read(folder / "study.json")["goals"], start=1)
    return {"goals": {str(number): _of_mean(one["found"]) for number, one in goals}}


def _of_episodes(folder: Path) -> Numbers:
    """Return the metrics of an evaluation of `assay or-debug`, by cell and by difficulty."""
    found: Numbers = {}
    evaluation = _read(folder / "evaluation.json")["evaluation"]
    for one in evaluation["cells"]:
        metrics = {key: _of_mean(value) for key, value in one["metrics"].items()}
        cell = one["cell"].replace("/", "_")
        found.setdefault(one["policy"], {})[cell] = metrics
    own = found.get(evaluation["policy"], {})
    own |= {one["difficulty"]: {"rr@5": _of_mean(one["found"])} for one in evaluation["gradient"]}
    return {"policy": own, "baselines": found}


def _of_mean(found: dict[str, Any] | None) -> Numbers | None:
    if found is None:
        return None
    return {"value": found["mean"], "num_tasks": found["n"]} | {
        key: found[key] for key in ("low", "high")
    }


def _of_comparison(output: Path) -> Numbers:
    """Return the rows by arm, set and metric; of a single arm, also by set and metric."""
    data = _read(output / "comparison_data.json")
    found: Numbers = {}
    for row in data["rows"]:
        place = row["set"] if row["stratum"] is None else f"{row['set']}_{row['stratum']}"
        numbers = {key: row[key] for key in ("difference", "relative", "value", "baseline")}
        numbers |= {key: row[key] for key in ("num_tasks", "num_up", "num_down")}
        numbers["p"] = row["p_corrected"]
        numbers["finding"] = _FINDINGS.get(row["verdict"], 0)
        metrics = found.setdefault(row["arm"], {}).setdefault(place, {})
        metrics[row["metric"]] = metrics[row["metric"].replace("@", "_at_")] = numbers
        if row["metric"] == "pass@1":
            metrics["accepted@1"] = metrics["accepted_at_1"] = numbers
    if len(data["arms"]) == 1:
        found |= {name: one for name, one in found[data["arms"][0]].items() if name not in found}
    met = [one for one in data["expectations"] if one["verdict"] == "MET"]
    counts = {"num_expectations": len(data["expectations"]), "num_met": len(met)}
    return found | counts


def _of_verification(output: Path) -> Numbers:
    data = _read(output / "verification.json")
    channel = data["channel"]
    found: Numbers = {
        "clean": int(channel["verdict"] == "CLEAN"),
        "num_prompts": channel["num_prompts"],
        "num_unclean": channel["num_unclean"],
    }
    for kind in data["behaviour"]:
        for form in ("raw", "template"):
            if kind[form] is not None:
                name = kind["kind"].replace(" ", "_")
                shares = {key: _of_share(one) for key, one in kind[form].items()}
                found.setdefault(form, {})[name] = shares
    return found


def _of_share(count: dict[str, Any]) -> Numbers | None:
    if count["share"] is None:
        return None
    bounds = {key: count[key] for key in ("low", "high")}
    return {"value": count["share"], "num_tasks": count["num_asked"]} | bounds


def _of_handoff(output: Path) -> Numbers:
    data = _read(output / "handoff.json")
    verdicts = {one["name"].replace(" ", "_"): one["verdict"] for one in data["checks"]}
    passed = {name: int(one == "PASS") for name, one in verdicts.items() if one != "SKIPPED"}
    return {"num_parameters": data["num_parameters"], "checks": passed}


def _of_ablation(output: Path) -> Numbers:
    data = _read(output / "report.json")
    return {
        "controls_work": int(data["controls_work"]),
        "has_winner": int(data["winner"] is not None),
        "num_compared": sum(one["state"] in ("COMPARED", "UNKNOWN") for one in data["arms"]),
        "goals": {str(n): one["found"] for n, one in enumerate(data["goals"], start=1)},
    }


_READERS: tuple[tuple[type[AnyStage], Callable[[Path], Numbers]], ...] = (
    (CompareStage, _of_comparison),
    (VerifyStage, _of_verification),
    (HandoffStage, _of_handoff),
    (AblateStage, _of_ablation),
)
