"""What a policy's name on the command line stands for."""

from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, InvalidInput, NotFound
from assay_trainer.evaluate.policy.places import find_policies
from assay_trainer.evaluation.best_checkpoint import BestCheckpoint, read_best, write_best


def make_run(path: Path, *, models: tuple[str, ...] = (), steps: tuple[str, ...] = ()) -> Path:
    """Make the folder of a run; `steps` are such as sft/10."""
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    (path / "events.jsonl").write_text("")
    for stage in models:
        (path / "models" / stage).mkdir(parents=True)
    for one in steps:
        stage, _, step = one.partition("/")
        folder = path / "checkpoints" / stage / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "assay.json").write_text("{}")
    return path


def labels(given: object, steps: str | None = None) -> list[str]:
    return [one.label for one in find_policies(str(given), steps)]


def test_a_run_stands_for_its_last_model_and_a_part_of_it_for_a_stage_or_a_step(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "r", models=("initial", "sft"), steps=("sft/10", "grpo/5", "grpo/20"))

    assert labels(run) == ["sft"]
    assert labels(f"{run}:initial") == ["initial"]
    assert labels(f"{run}:20") == ["grpo-20"]
    assert labels(run, "all") == ["initial", "sft-10", "sft", "grpo-5", "grpo-20"]
    assert labels(run, "20,10") == ["grpo-20", "sft-10"]
    with pytest.raises(NotFound, match=r"no checkpoint of step 7 \(it keeps sft-10, grpo-5"):
        labels(f"{run}:7")
    with pytest.raises(NotFound, match="'grp' is neither a step nor one of initial"):
        labels(f"{run}:grp")
    with pytest.raises(InvalidInput, match="give either RUN:STEP or --steps"):
        labels(f"{run}:5", "all")
    with pytest.raises(InvalidInput, match="'some' is neither all nor steps"):
        labels(run, "some")


def test_a_run_without_a_model_stands_for_its_newest_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", steps=("sft/10", "sft/20"))
    unfinished = run / "checkpoints" / "sft" / "checkpoint-30"
    unfinished.mkdir()

    assert labels(run) == ["sft-20"]
    with pytest.raises(NotFound, match="has no model yet"):
        labels(make_run(tmp_path / "empty"))


def test_a_run_stands_for_the_checkpoint_that_was_measured_best(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", models=("sft",), steps=("sft/10",))
    values = {"stage": "sft", "step": 10, "value": 0.5, "low": 0.4, "high": 0.6}
    best = BestCheckpoint.model_validate(
        values
        | {"folder": "checkpoints/sft/checkpoint-10", "set": "s", "metric": "m", "measured": []}
    )
    write_best(run, best)

    assert read_best(run) == best
    assert labels(run) == ["sft-10"]
    assert labels(f"{run}:sft") == ["sft"]
    (run / "best_checkpoint.json").write_text("{}")
    with pytest.raises(DatasetError, match="best_checkpoint.json: Field required"):
        labels(run)


def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no policy 'none'"):
        find_policies("none", None)
    with pytest.raises(InvalidInput, match="--steps: it goes with a run's folder"):
        find_policies(str(tmp_path), "all")
    with pytest.raises(NotFound, match="has no config.json"):
        find_policies(str(tmp_path), None)
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "org/model"}')
    with pytest.raises(InvalidInput, match=r"is a LoRA adapter of org/model .*assay handoff"):
        find_policies(str(tmp_path), None)
