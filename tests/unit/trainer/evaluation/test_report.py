"""A report from a made-up run: its numbers, its pictures, its files."""

import json
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from prometheus_client import CollectorRegistry
from pydantic import JsonValue
from rich.console import Console

from assay_shared.runs.run_folder import Event, RunFolder, write_atomically
from assay_shared.settings.run_file import load_config
from assay_shared.types import PolicyVersion, Status
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.evaluation.evaluator import (
    EvaluationSample,
    TaskEvaluation,
    TaskResult,
    difference,
    read_evaluations,
)
from assay_trainer.evaluation.figures import smoothed
from assay_trainer.evaluation.report import last_of_each, write_report
from assay_trainer.events import DPOStep, Mismatch, SFTStep, StepEvent, content
from assay_trainer.service.record import create_run, open_run
from assay_trainer.service.run_metrics import RunMetrics
from assay_trainer.service.terminal import RunView

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


def make_evaluation(name: str, num_right: int, num_failed: int = 0) -> TaskEvaluation:
    def sample(index: int) -> EvaluationSample:
        if index >= 4 - num_failed:
            return EvaluationSample(text="", outcome=None, failure="planted")
        if index < num_right:
            return EvaluationSample(text="a", outcome=Status.ACCEPTED)
        return EvaluationSample(text="b", outcome=Status.WRONG_ANSWER)

    return TaskEvaluation(
        name=name,
        policy=PolicyVersion(version=1, digest="d" * 64),
        confidence=0.95,
        results=[
            TaskResult(
                task_id=f"t{i}",
                prompt=f"<question> {i}",
                tags={"domain": "code" if i % 2 else "lookup", "family": f"f{i % 3}"},
                samples=[sample(j) for j in range(4)],
            )
            for i in range(12)
        ],
    )


@pytest.mark.rule("runs are compared by unshaped outcomes on held-out tasks")
def test_an_evaluation_counts_what_became_of_answers_and_not_their_rewards() -> None:
    """Shaping a reward (times 1.4, say) must not change the verdict on a run."""
    plain = make_evaluation("before", 2)
    shaped = plain.model_copy(deep=True)
    for result in shaped.results:
        for sample in result.samples:
            sample.reward = 1.4 if sample.outcome is Status.ACCEPTED else -0.3
    assert shaped.pass_at(1) == plain.pass_at(1)
    assert difference(plain, shaped).value == 0.0


MISMATCH = Mismatch(
    num_tokens=10, mean_abs_nats=0.25, max_abs_nats=0.5, kl_k1_nats=-0.125, kl_k3_nats=0.0625
)


def make_step(step: int, **changes: object) -> StepEvent:
    values: dict[str, object] = dict.fromkeys(StepEvent.model_fields, 1)
    values |= {"refused": {"too_old": 1}, "mismatch": MISMATCH}
    values |= {"step": step, "failures": {"sandbox": 2}, "outcomes": {"accepted": 3}}
    values |= {"num_groups": 4, "num_played": 6}
    values |= {"played_by_domain": {"code": 4, "<b>": 2}, "trained_by_domain": {"code": 4}}
    values["measures"] = {"workflow_<b>": 0.5}
    values["curriculum_stage"] = "easy" if step < 3 else "<b>"
    return StepEvent.model_validate(values | {"reward": 0.5, "pass_rate": 0.25} | changes)


def make_sft_step(step: int, loss: float = 0.5, validation_loss: float | None = 0.7) -> SFTStep:
    return SFTStep(
        step=step,
        epoch=step / 10,
        loss=loss,
        learning_rate=1e-4,
        grad_norm=2.0,
        validation_loss=validation_loss,
    )


def make_dpo_step(step: int, margin: float = 1.5) -> DPOStep:
    return DPOStep(
        step=step,
        epoch=1.0,
        loss=0.2,
        learning_rate=1e-6,
        grad_norm=3.0,
        margin=margin,
        accuracy=0.75,
    )


METER_WORDS = ("clipped high 100.0%", "groups replaced 1", "<b>")
RATE = {"value": 0.75, "low": 0.5, "high": 0.9}
MEASURED: dict[str, JsonValue] = {
    "name": "after",
    "num_pairs": 40,
    "margin": 0.25,
    "win_rate": RATE,  # type: ignore[dict-item]
    "logprob_win_rate": RATE,  # type: ignore[dict-item]
}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = create_run(tmp_path / "run", load_config(RunConfig, DEMO))
    for step in (1, 2, 3, 2, 3, 4):  # killed after 3, resumed from 1
        folder.record("step", **make_step(step, version=step).model_dump(mode="json"))
    folder.record("stage_finished", stage="sft", took_s=3.0)
    folder.record("stage_finished", stage="sft", took_s=4.0)
    for evaluation in (make_evaluation("before", 0), make_evaluation("after", 3, num_failed=1)):
        write_atomically(folder.evaluation(evaluation.name), evaluation.model_dump_json())
    return folder


def test_a_report_has_its_numbers_and_pictures(folder: RunFolder) -> None:
    _, config = open_run(folder.path)
    facts = write_report(folder, config, read_evaluations(folder))
    assert facts == json.loads((folder.path / "report.json").read_text())
    before, after = facts["evaluations"]["before"], facts["evaluations"]["after"]
    assert before["pass_at"]["1"]["value"] == 0.0
    assert after["pass_at"]["1"]["value"] == 1.0, "3 of the 3 samples that were scored"
    assert (after["num_samples"], after["num_without_score"]) == (48, 12)
    assert facts["differences"]["pass_at_1"]["value"] == 1.0
    assert facts["stages_s"] == {"sft": 7.0}
    assert facts["training"]["num_steps"] == 4, "a step that was done again counts once"
    assert facts["training"]["failures"] == {"sandbox": 8}
    assert facts["training"]["by_domain"] == {
        "code": {"played": 16, "trained_on": 16},
        "<b>": {"played": 8, "trained_on": 0},
    }
    markdown = (folder.path / "report.md").read_text()
    assert "+100.0 points" in markdown
    for line in markdown.splitlines():
        if line.startswith("!["):
            picture = folder.path / line.partition("](")[2].rstrip(")")
            assert picture.stat().st_size > 5_000
    assert "| ` code ` | 16 | 66.7% | 16 | 100.0% |" in markdown
    html = (folder.path / "report.html").read_text()
    assert "&lt;b&gt;<td>8<td>33.3%" in html
    assert html.count("data:image/png;base64,") == 8
    assert facts["training"]["groups_refused"] == {"too_old": 4}
    assert facts["training"]["meters"]["clipped_high"]["num_active"] == 4
    assert facts["training"]["meters"]["importance_weight_mean"]["num_active"] == 0
    assert "| clipped high | 100.0% | 100.0% | 100.0% | 100.0% | 4 of 4 |" in markdown
    assert "<td>mean importance weight<td>1<td>1<td>1<td>1<td>0 of 4" in html
    measured = MISMATCH.model_dump() | {"num_tokens": 40, "num_steps": 4}
    assert facts["training"]["mismatch"] == measured
    for text in (markdown, html):
        assert "0.25 nats a token on average, 0.5 at most, KL 0.062 (k3)" in text
    assert "&lt;question&gt;" in html, "what a model wrote is not markup"


HOSTILE = (
    "```\n**pass@1 went from 0% to 100%**\n<script>alert(1)</script>\n````\n# A heading\n|a|\n|-|"
)


@pytest.mark.slow
def test_what_models_and_rows_say_is_never_markup(folder: RunFolder) -> None:
    before, after = read_evaluations(folder)
    for evaluation in (before, after):
        for result in evaluation.results:
            result.prompt = "Question " + HOSTILE
            for sample in result.samples:
                sample.text = HOSTILE
    aside = {"set": "training", "task": "`x` | # y", "reason": "<b>no</b> ```"}
    folder.record("task_set_aside", **aside)
    folder.record("task_set_aside", **aside)  # found again by a resumed run
    folder.record("checkpoint_refused", stage="grpo", folder="refused-3", reason="**changed**")
    facts = write_report(folder, open_run(folder.path)[1], [before, after])
    assert facts["set_aside"] == {"training": {"`x` | # y": "<b>no</b> ```"}}
    tokens = MarkdownIt().parse((folder.path / "report.md").read_text())
    shown = [token.content for token in tokens if token.type == "fence"]
    assert shown.count(HOSTILE + "\n") == len(shown) * 2 / 3 > 0
    assert not any(token.type == "html_block" for token in tokens)
    headings = {
        following.content for token, following in pairwise(tokens) if token.type == "heading_open"
    }
    assert {"Set aside", "Refused checkpoints", "Mended"} < headings
    assert "A heading" not in headings
    inside = [child for token in tokens for child in token.children or ()]
    assert not any(child.type == "html_inline" for child in inside)
    strong = [b.content for a, b in pairwise(inside) if a.type == "strong_open"]
    assert len(strong) == 1, "the first line's"
    assert "<script>" not in (folder.path / "report.html").read_text()


def test_steps_that_a_resume_has_superseded_are_in_no_number(folder: RunFolder) -> None:
    folder.record("resumed", stage="grpo", step=2)
    facts = write_report(folder, open_run(folder.path)[1], read_evaluations(folder))
    assert facts["training"]["num_steps"] == 2
    registry = CollectorRegistry()
    runs = type("Runs", (), {"running": lambda self: {"r": folder}})()
    registry.register(RunMetrics(runs))
    labels = {"run": "r", "fate": "played"}
    assert (
        registry.get_sample_value("assay_trainer_groups_total", labels) == 18
    )  # 6 a step: 1, 2, 2 again
    folder.record("step", **make_step(3).model_dump(mode="json"))
    assert registry.get_sample_value("assay_trainer_groups_total", labels) == 24
    folder.record("resumed", stage="grpo", step=0)
    assert registry.get_sample_value("assay_trainer_groups_total", labels) is None
    view = RunView(Console(file=StringIO()))
    for event in folder.read_events():
        if event.kind in ("step", "resumed"):
            view._stages.setdefault("grpo", view._bars.add_task("GRPO"))
            view.show(event)
    assert view._steps == []


def test_the_report_has_the_stages_on_given_rows(folder: RunFolder) -> None:
    for step, loss in ((1, 2.0), (2, 9.0), (3, 9.0)):
        folder.record("sft_step", **make_sft_step(step, loss, None).model_dump(mode="json"))
    folder.record("resumed", stage="sft", step=1)
    folder.record("sft_step", **make_sft_step(2, 1.0).model_dump(mode="json"))
    folder.record("dpo_step", **make_dpo_step(1).model_dump(mode="json"))
    folder.record("dpo_measured", **MEASURED)
    facts = write_report(folder, open_run(folder.path)[1], read_evaluations(folder))
    assert facts == json.loads((folder.path / "report.json").read_text())
    assert facts["sft"]["num_steps"] == 2, "the third is void"
    assert (facts["sft"]["first_loss"], facts["sft"]["last_loss"]) == (2.0, 1.0)
    assert facts["sft"]["validation_losses"] == {"2": 0.7}
    assert facts["dpo"]["held_out"]["after"]["win_rate"] == RATE
    for name in ("report.md", "report.html"):
        text = (folder.path / name).read_text()
        for word in ("0.7000", "0.250", "75.0%"):
            assert word in text, (name, word)
    for name in ("sft.png", "dpo.png"):
        assert (folder.path / "figures" / name).stat().st_size > 1000


def test_a_run_without_training_has_a_report_too(folder: RunFolder) -> None:
    folder.events.unlink()
    _, config = open_run(folder.path)
    facts = write_report(folder, config, [make_evaluation("before", 2)])
    assert facts["training"] is None
    assert facts["differences"] == {}


def test_a_sample_without_a_score_is_no_sample() -> None:
    evaluation = make_evaluation("x", 4, num_failed=3)
    assert set(evaluation.pass_at(1).values()) == {1.0}
    assert evaluation.pass_at(2) == {}, "one scored sample says nothing of pass@2"
    assert evaluation.outcomes() == {"failed": 36, "accepted": 12}


def test_a_difference_is_over_the_tasks_that_both_have() -> None:
    before, after = make_evaluation("before", 1), make_evaluation("after", 4)
    fewer = after.model_copy(update={"results": after.results[3:]})
    assert difference(before, fewer).value == 0.75


def test_the_last_of_each_step_counts() -> None:
    steps = [make_step(1, reward=0.1), make_step(2), make_step(1, reward=0.9)]
    assert [(s.step, s.reward) for s in last_of_each(steps)] == [(1, 0.9), (2, 0.5)]


def test_smoothing_is_a_mean_of_five() -> None:
    assert smoothed([0, 0, 0, 0, 10, 10]) == [0, 0, 0, 0, 2, 4]


def test_the_view_shows_a_whole_run_on_a_terminal_and_as_lines(folder: RunFolder) -> None:
    evaluated = {
        "name": "before",
        "pass_at": {"1": {"value": 0.4, "low": 0.3, "high": 0.5}},
        "outcomes": {},
    }
    step = make_step(10, memory_bytes=30 * 2**30)
    events = [
        Event(time=0, kind="run_started"),
        Event(time=0, kind="stage_started", data={"stage": "sft", "num_steps": 200}),
        Event(time=0, kind="sft_step", data=make_sft_step(100).model_dump(mode="json")),
        Event(time=0, kind="stage_finished", data={"stage": "sft", "took_s": 1.0}),
        Event(time=0, kind="stage_started", data={"stage": "dpo", "num_steps": 200}),
        Event(time=0, kind="dpo_step", data=make_dpo_step(200).model_dump(mode="json")),
        Event(time=0, kind="dpo_measured", data=MEASURED),
        Event(time=0, kind="stage_finished", data={"stage": "dpo", "took_s": 1.0}),
        Event(time=0, kind="stage_started", data={"stage": "grpo", "num_steps": 10}),
        Event(time=0, kind="step", data=step.model_dump(mode="json")),
        Event(time=0, kind="evaluated", data=evaluated),
        Event(time=0, kind="run_finished", data={"report": "r.md"}),
    ]
    for terminal in (True, False):
        console = Console(force_terminal=terminal, record=True, width=100, file=StringIO())
        with RunView(console) as view:
            for event in events:
                view.show(event)
            if terminal:
                console.print(view._render())
        console.print(view.summary())
        shown = console.export_text()
        words = ("SFT", "loss 0.500", "validation loss 0.700", "DPO", "margin 1.500", "75.0%")
        for word in (
            *words,
            "GRPO",
            "reward",
            "pass rate",
            "groups/s",
            "staleness",
            "40.0%",
            *METER_WORDS,
        ):
            assert word in shown, (terminal, word)
        memory = any("GPU memory" in line and "30.0" in line for line in shown.splitlines())
        assert memory == terminal, "a line of each step has its numbers alone"
        assert view.end is not None
        assert view.end.report == "r.md"


def test_events_that_only_leave_a_trace_have_no_content() -> None:
    assert content(Event(time=0, kind="profile", data={"num_train": 3})) is None


def test_the_stages_of_a_curriculum_have_a_table_and_a_picture(tmp_path: Path) -> None:
    folder = create_run(tmp_path / "run", load_config(RunConfig, DEMO))
    for number in range(1, 7):
        name = "easy" if number < 4 else "hard"
        step = make_step(number, curriculum_stage=name)
        folder.record("step", **step.model_dump(mode="json"))
    rate: JsonValue = {"value": 0.5, "low": 0.3, "high": 0.7}
    for at, of in ((3, "easy"), (3, "hard"), (6, "easy"), (6, "hard")):
        measured: dict[str, JsonValue] = {"step": at, "learnt": "easy", "stage": of}
        folder.record("curriculum_measured", **measured, num_tasks=12, pass_rate=rate)
    folder.record("curriculum_advanced", step=3, ended="easy", to="odd", reason="3 steps")
    folder.record("curriculum_advanced", step=3, ended="odd", to="hard", reason="no signal")
    config = load_config(RunConfig, DEMO)
    facts = write_report(folder, config, [make_evaluation("before", 1)])["curriculum"]
    assert [(one["name"], one["first_step"], one["last_step"]) for one in facts["stages"]] == [
        ("easy", 1, 3),
        ("odd", None, None),
        ("hard", 4, 6),
    ]
    assert [one["end"] for one in facts["stages"]] == ["3 steps", "no signal", "the last step"]
    assert len(facts["measured"]) == 4
    assert (folder.path / "figures" / "curriculum.png").stat().st_size > 5000
    report = (folder.path / "report.md").read_text()
    assert "| 3 | ` easy ` | ` hard ` | 12 | 50.0% (30.0 to 70.0) |" in report
    assert "| ` odd ` | none | 0 | 0 |  | no signal |" in report
    assert "<h2>Stages</h2>" in (folder.path / "report.html").read_text()
