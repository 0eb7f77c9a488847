"""Metrics of runs from their events, as they grow."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.meters import METERS
from assay_trainer.service.run_metrics import RunMetrics
from tests.unit.trainer.evaluation.test_report import (
    MISMATCH,
    make_dpo_step,
    make_sft_step,
    make_step,
)


class TwoRuns:
    """Stands for `Runs`, with a set of live processes."""

    def __init__(self, folder: Path) -> None:
        self.folders = {name: RunFolder.create(folder / name) for name in ("a", "b")}

    def running(self) -> dict[str, RunFolder]:
        return self.folders


def test_the_last_step_and_all_refusals_of_running_runs_are_shown(tmp_path: Path) -> None:
    runs, registry = TwoRuns(tmp_path), CollectorRegistry()
    registry.register(RunMetrics(runs))  # type: ignore[arg-type]  # of the same shape
    run = runs.folders["a"]

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"assay_trainer_{name}", {"run": "a"} | labels)

    assert value("step") is None
    for step in (1, 2):
        content = make_step(step, refused={"unknown_version": step, "too_old": 1})
        run.record("step", **content.model_dump(mode="json"))
    assert value("step") == 2
    assert value("refused_groups_total", reason="unknown_version") == 3
    assert value("refused_groups_total", reason="too_old") == 2
    assert value("mismatch_mean_abs_nats") == MISMATCH.mean_abs_nats
    assert value("mismatch_kl_k3_nats") == MISMATCH.kl_k3_nats
    with run.events.open("a") as unfinished:
        unfinished.write('{"time": 1, "kind": "st')
    assert value("refused_groups_total", reason="unknown_version") == 3, "each line counts once"
    del runs.folders["a"]
    assert value("step") is None


def test_the_stages_on_given_rows_show_their_last_update(tmp_path: Path) -> None:
    runs, registry = TwoRuns(tmp_path), CollectorRegistry()
    registry.register(RunMetrics(runs))  # type: ignore[arg-type]  # of the same shape
    run = runs.folders["a"]

    def value(name: str, stage: str) -> float | None:
        labels = {"run": "a", "stage": stage}
        return registry.get_sample_value(f"assay_trainer_given_rows_{name}", labels)

    for kind, step in (
        ("sft_step", make_sft_step(1)),
        ("sft_step", make_sft_step(2, 0.25, None)),
        ("dpo_step", make_dpo_step(5, margin=-0.5)),
    ):
        run.record(kind, **step.model_dump(mode="json"))
    assert (value("step", "sft"), value("loss", "sft")) == (2, 0.25)
    assert value("validation_loss", "sft") == 0.7, "the last one that was measured"
    assert (value("step", "dpo"), value("margin", "dpo")) == (5, -0.5)
    assert value("validation_loss", "dpo") is None
    run.record("resumed", stage="sft", step=1)
    assert value("step", "sft") == 1


def test_a_step_without_a_mismatch_shows_none(tmp_path: Path) -> None:
    runs, registry = TwoRuns(tmp_path), CollectorRegistry()
    registry.register(RunMetrics(runs))  # type: ignore[arg-type]  # of the same shape
    content = make_step(1, mismatch=None)
    runs.folders["b"].record("step", **content.model_dump(mode="json"))
    assert registry.get_sample_value("assay_trainer_step", {"run": "b"}) == 1
    name = "assay_trainer_mismatch_mean_abs_nats"
    assert registry.get_sample_value(name, {"run": "b"}) is None


def test_every_meter_of_the_last_step_is_a_metric(tmp_path: Path) -> None:
    runs, registry = TwoRuns(tmp_path), CollectorRegistry()
    registry.register(RunMetrics(runs))  # type: ignore[arg-type]  # of the same shape
    values = {meter.field: at for at, meter in enumerate(METERS, 2)}
    noted = {"workflow_valid": 0.75}
    first = make_step(1, measures={"workflow_valid": 0.5, "workflow_calls": 2.0})
    second = make_step(2, **values, curriculum_stage="hard", measures=noted)
    for step in (first, second):
        runs.folders["a"].record("step", **step.model_dump(mode="json"))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"assay_trainer_{name}", {"run": "a"} | labels)

    assert {meter.field: value(meter.series) for meter in METERS} == values
    assert value("measure", measure="workflow_valid") == 0.75
    assert value("measure", measure="workflow_calls") is None, "the last step has none"
    assert value("curriculum_stage", stage="hard") == 1
    assert value("curriculum_stage", stage="easy") is None, "it has ended"
    third = make_step(3, kl_gradient_share=None, curriculum_stage=None)
    runs.folders["a"].record("step", **third.model_dump(mode="json"))
    assert value("kl_gradient_share") is None
    assert value("curriculum_stage", stage="hard") is None


def test_what_steps_did_adds_up_and_the_last_one_stands(tmp_path: Path) -> None:
    runs, registry = TwoRuns(tmp_path), CollectorRegistry()
    registry.register(RunMetrics(runs))  # type: ignore[arg-type]  # of the same shape
    for step, failures in ((1, {"judge": 2}), (2, {"judge": 1, "sandbox": 1})):
        content = make_step(step, failures=failures, reward=step / 4, rollouts_s=1.5)
        runs.folders["a"].record("step", **content.model_dump(mode="json"))
    runs.folders["a"].record("by_folder", version=3, message="no direct way")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"assay_trainer_{name}", {"run": "a"} | labels)

    assert value("failures_total", failure_class="judge") == 3
    assert value("failures_total", failure_class="sandbox") == 1
    assert value("reward") == 0.5
    assert value("phase_seconds_total", phase="rollouts") == 3.0
    assert value("groups_total", fate="played") == 2 * make_step(1).num_played
    assert value("by_folder_total") == 1
