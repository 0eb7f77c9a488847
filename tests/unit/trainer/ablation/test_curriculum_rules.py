"""Stages of arms without tasks are refused before anything is trained."""

from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import AssayError, ConfigError
from assay_shared.types import Role
from assay_trainer.ablation.plan_rules import read_checked
from tests.support.fakes import make_task
from tests.unit.trainer.ablation.test_arms import RUN
from tests.unit.trainer.ablation.test_plan_rules import write

EASY = {"name": "easy", "where": {"difficulty": "easy"}, "steps": 2}
UNTIL = {"pass_rate": 0.5, "min_steps": 1, "max_steps": 4, "every": 1}


@pytest.fixture
def run(tmp_path: Path) -> dict[str, Any]:
    """A run file whose sets have easy and hard tasks."""
    sources = {}
    for name, role in (("train", Role.TRAIN), ("held_out", Role.TEST)):
        path = tmp_path / f"{name}.jsonl"
        tasks = [
            make_task(f"{name}-{tag}", rubric="math", role=role, tests=(), tags={"difficulty": tag})
            for tag in ("easy", "hard")
        ]
        path.write_text("".join(task.model_dump_json() + "\n" for task in tasks))
        sources[name] = {"kind": "jsonl", "path": str(path)}
    return RUN | {"data": sources}


def staged(folder: Path, run: dict[str, Any], stage: dict[str, Any], **more: Any) -> Path:
    arms = {"first": {}, "staged": {"curriculum.stages": [stage], **more}}
    return write(folder, run=run, arms=arms, evaluation={"metrics": ["pass@1"]})


@pytest.mark.parametrize("needs_files", [True, False])
@pytest.mark.parametrize(
    ("stage", "field", "told"),
    [
        ({"where": {"difficulty": "eazy"}}, "easy.where", "no training task has difficulty: eazy"),
        ({"where": {"level": "easy"}}, "easy.where", "no training task has the tag 'level'"),
        ({"steps": None, "until": UNTIL}, "easy.until", "rows for tests alone"),
    ],
)
def test_a_stage_that_a_run_would_refuse_is_refused(
    tmp_path: Path,
    run: dict[str, Any],
    stage: dict[str, Any],
    field: str,
    told: str,
    needs_files: bool,
) -> None:
    with pytest.raises(AssayError) as refused:
        read_checked(staged(tmp_path, run, EASY | stage), needs_files=needs_files)
    assert refused.value.field == f"arms.staged: curriculum.stages {field}"
    assert told in refused.value.message


def test_steps_that_do_not_suffice_for_the_stages_are_refused(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    with pytest.raises(AssayError, match="up to 9 steps, and GRPO ends after 4") as refused:
        read_checked(staged(tmp_path, run, EASY | {"steps": 9}))
    assert refused.value.field == "arms.staged: grpo.steps"


def test_stages_with_tasks_or_of_a_missing_file_are_a_plan(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    assert read_checked(staged(tmp_path, run, EASY)).arms
    wrong = EASY | {"where": {"difficulty": "eazy"}}
    (tmp_path / "train.jsonl").unlink()
    unmeasured = {"curriculum.measure": None}
    assert read_checked(staged(tmp_path, run, wrong, **unmeasured), needs_files=False).arms


def test_a_pass_rate_that_the_held_out_tasks_cannot_show_is_refused(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    path = Path(run["data"]["held_out"]["path"])
    path.write_text(path.read_text().replace('"role":"test"', '"role":"validation"'))
    stage = EASY | {"steps": None, "until": UNTIL}
    with pytest.raises(ConfigError, match="with 1 held-out tasks, all of them solved") as refused:
        read_checked(staged(tmp_path, run, stage), needs_files=False)
    assert refused.value.field == "arms.staged: curriculum.stages easy.until.pass_rate"
    allowed = staged(tmp_path, run, stage, **{"grpo.allow_inert": True})
    assert read_checked(allowed, needs_files=False).arms
