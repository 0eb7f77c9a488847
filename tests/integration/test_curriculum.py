"""A run with a curriculum, killed in the middle of a stage, samples as one that was not."""

from pathlib import Path

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.events import StepEvent
from assay_trainer.rollouts.rollout_log import read_rollouts
from tests.integration.conftest import Assay, demo_file, wait_for_event
from tests.support.runs import QUICK

STAGES = (
    "{name: sums, where: {domain: arithmetic}, steps: 3},"
    "{name: both, where: {domain: [arithmetic, lookup]}, until: "
    "{pass_rate: 0.7, min_steps: 1, max_steps: 3, every: 2}},"
    "{name: lookups, where: {domain: lookup}, steps: 3}"
)
#: Every group is learnt, on policy: which tasks are sampled does not depend on time.
SETTINGS = (
    *QUICK,
    "data.train={kind: generated, num_tasks: 60, code: 0, arithmetic: 0.5, lookup: 0.5}",
    "data.validation=null",
    "data.leaks=null",
    "sft.steps=10",
    "grpo.steps=9",
    "grpo.group_size=2",
    "grpo.max_tokens=8",
    "grpo.max_staleness=0",
    "grpo.replace_flat=false",
    "grpo.max_flat_steps=100",
    "evaluation.samples_per_task=1",
    "evaluation.max_tokens=8",
)


def held_out_file(folder: Path, assay: Assay) -> str:
    """Return a source of validation rows: rows for tests alone cannot end a stage."""
    rows = assay.run("tasks", "--num", "40", "--held-out").splitlines()
    kept = [row.replace('"role":"test"', '"role":"validation"') for row in rows if "{" in row]
    path = folder / "held_out.jsonl"
    path.write_text("\n".join(row for row in kept if '"domain":"code"' not in row) + "\n")
    return f"data.held_out={{kind: jsonl, path: {path}}}"


def draws_of(folder: Path) -> dict[str, str]:
    """Return the tasks of the learnt groups, by draw."""
    found = {}
    for one in read_rollouts(folder / "rollouts.jsonl"):
        if not one.superseded:
            draw = one.group.key.removeprefix(f"{folder.name}/").split("/")[0]
            found[draw] = one.group.task.id
    return found


def stages_of(folder: Path) -> dict[int, str | None]:
    steps = [event.data for event in RunFolder(folder).read_events() if event.kind == "step"]
    found = [StepEvent.model_validate(step) for step in steps]
    return {step.step: step.curriculum_stage for step in found}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(2, marks=pytest.mark.nightly, id="in a stage with a fixed number of steps"),
        pytest.param(5, id="in a stage that ends by its pass rate"),
    ],
)
def test_a_kill_in_mid_stage_changes_no_draw(assay: Assay, tmp_path: Path, step: int) -> None:
    settings = [*SETTINGS, held_out_file(tmp_path, assay), f"curriculum={{stages: [{STAGES}]}}"]
    whole, killed = tmp_path / "stages_whole", tmp_path / "stages_killed"
    assay.run("train", demo_file(), *settings, "--folder", str(whole))

    process = assay.start("train", demo_file(), *settings, "--folder", str(killed))
    wait_for_event(killed, "step", step=step)
    process.kill()
    assay.finish(process)
    assay.run("train", "--resume", str(killed))

    assert stages_of(killed) == stages_of(whole)
    assert list(stages_of(whole).values()) == ["sums"] * 3 + ["both"] * 3 + ["lookups"] * 3
    assert draws_of(killed) == draws_of(whole)
    assert len(draws_of(whole)) == 9 * 4
    kinds = [event.kind for event in RunFolder(whole).read_events()]
    assert kinds.count("curriculum_advanced") == 3
    assert (whole / "figures" / "curriculum.png").exists()
