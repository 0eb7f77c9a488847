"""From finished runs to a report: ranking, refusals, no-ops found after training, the winner."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console

from assay_shared.errors import DatasetError, NotFound
from assay_shared.runs.run_folder import RunFolder, RunStatus, write_atomically, write_json
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.ablation.ablation_folder import AblationFolder
from assay_trainer.ablation.arms import AblationPlan, read_ablation
from assay_trainer.ablation.decomposition.findings import (
    Decomposition,
    PlantedChanges,
    SwitchVerdict,
)
from assay_trainer.ablation.judging.findings import AblationReport, JudgedVerdict
from assay_trainer.ablation.report import words
from assay_trainer.ablation.report.making import make_report, notes_of_equal_metrics
from assay_trainer.ablation.report.terminal import show_report
from assay_trainer.ablation.report.winner import winner_text
from assay_trainer.ablation.running import AblationRun, previous_trained, start_weights
from assay_trainer.evaluate.evaluation import write_results
from assay_trainer.evaluation.records.folder import read_evaluation
from assay_trainer.rollouts.rollout_log import append_rollout
from assay_trainer.stop import Stop
from tests.support.evaluations import RIGHT, answers, make_sample, sampled, write_evaluation
from tests.support.policies import make_policy_folder
from tests.unit.trainer.ablation.decomposition.conftest import make_groups, step_event
from tests.unit.trainer.ablation.report.test_writing import change, planted
from tests.unit.trainer.ablation.test_arms import ARMS, RUN

pytestmark = pytest.mark.slow
SEEDS = (1, 2, 3, 4)
NUM_TASKS = 40
#: The chance of a right answer.
ABILITIES = {"start": 0.2, "first": 0.3, "kl": 0.6, "rate": 0.6}


def write_run(folder: AblationFolder, path: Path, ability: float, number: int, start: Path) -> None:
    """Write a finished run whose policy answers with this ability."""
    run = RunFolder.create(path)
    write_json(run.config, {"config": {"grpo": None if number == 0 else {}}})
    run.write_status(RunStatus(state="finished"))
    write_atomically(run.tasks, "{}\n")
    (path / "models").mkdir()
    (path / "models" / ("sft" if number == 0 else "initial")).symlink_to(start)
    if number:
        run.record("step", **step_event(1))
        for group in make_groups(1):
            append_rollout(run.rollouts, group, 1, 2**24)
    tasks = answers(np.random.default_rng(number), [ability] * NUM_TASKS, 4)
    place = folder.measured(path).path
    digest = f"{number:064d}"
    write_evaluation(place, {"held_out": tasks}, protocol=sampled(4), digest=digest)


@pytest.fixture
def finished(tmp_path: Path) -> AblationRun:
    """An ablation whose runs have all finished."""
    file = tmp_path / "a.yaml"
    values = {"run": RUN, "arms": ARMS, "seeds": list(SEEDS), "goals": []}
    goal = {"metric": "pass@1", "against": "start", "at_least": 0.1}
    file.write_text(yaml.safe_dump(values | {"goals": [goal]}, sort_keys=False))
    folder = AblationFolder.create(tmp_path / "done", read_ablation(file))
    start = tmp_path / "weights"
    make_policy_folder(start)
    write_run(folder, folder.start, ABILITIES["start"], 0, start)
    for at, name in enumerate(ARMS):
        for seed in SEEDS:
            run = folder.run(name, seed)
            write_run(folder, run, ABILITIES[name], 10 * (at + 1) + seed, start)
    found = planted("p", SwitchVerdict.NO_EFFECT, SwitchVerdict.NO_EFFECT)
    write_controls(folder, PlantedChanges(run="r", controls=[found]))
    # No address answers there: policies without skill cannot be scored.
    settings = ServiceSettings(reward_url="http://127.0.0.1:1")
    return AblationRun(folder, folder.plan(), settings, [{}], Stop())


def write_controls(folder: AblationFolder, controls: PlantedChanges) -> None:
    folder.controls.write_text(controls.model_dump_json())


def made(run: AblationRun) -> AblationReport:
    return make_report(run, run.plan.arms)


def test_the_better_arm_wins_and_what_could_not_be_measured_is_told(finished: AblationRun) -> None:
    report = made(finished)
    first, second = report.changes
    assert (first.arm, first.against, first.verdict) == ("kl", "first", JudgedVerdict.PASS)
    assert (second.arm, second.against) == ("rate", "kl")
    assert second.verdict is JudgedVerdict.INCONCLUSIVE
    assert report.winner in ("kl", "rate")
    assert report.ranking[-1] == "first"
    assert [one.verdict for one in report.goals] == [JudgedVerdict.PASS]
    assert any("without skill are missing" in note for note in report.notes)
    assert any("40 tasks and 4 seeds would have shown" in note for note in report.notes)
    told = json.loads((finished.folder.path / "winner.json").read_text())
    assert told["digest"] == report.start_digest
    assert (finished.folder.path / "report.html").exists()


def test_with_two_seeds_nothing_could_have_been_decided(finished: AblationRun) -> None:
    config = finished.plan.config.model_copy(update={"seeds": SEEDS[:2]})
    report = made(replace(finished, plan=replace(finished.plan, config=config)))
    assert {row.num_seeds for row in report.changes} == {2}
    assert any("2 of the 4 seeds" in note and "been decided" in note for note in report.notes)
    assert not any("would have shown" in note for note in report.notes)
    assert [row.detectable for row in report.changes] == [None, None]


def fail_wrong_answers(run: AblationRun, arm: str) -> None:
    """Turn each wrong sample of an arm into a failure."""
    for seed in SEEDS:
        folder = run.folder.measured(run.folder.run(arm, seed))
        samples = [
            one if one.outcome is RIGHT else make_sample(one.task_id, one.index, None)
            for one in read_evaluation(folder.path).sets["held_out"].samples
        ]
        folder.replace_samples("held_out", samples)


def measure_again(run: AblationRun, arm: str, ability: float) -> None:
    for seed in SEEDS:
        place = run.folder.measured(run.folder.run(arm, seed)).path
        shutil.rmtree(place)
        tasks = answers(np.random.default_rng(100 + seed), [ability] * NUM_TASKS, 4)
        write_evaluation(place, {"held_out": tasks}, protocol=sampled(4), digest=f"{seed:064d}")


def test_failures_of_wrong_answers_alone_make_no_winner(finished: AblationRun) -> None:
    measure_again(finished, "rate", 0.25)
    fail_wrong_answers(finished, "rate")
    report = made(finished)
    assert report.ranking[0] == "rate"
    row = next(one for one in report.to_baseline if one.arm == "rate")
    assert row.change.value > 0.5
    assert row.p_corrected < 0.05
    assert row.failed is not None
    assert row.failed.verdict_without is JudgedVerdict.PASS
    assert row.failed.found is not None
    assert row.failed.found.value < 0
    assert row.verdict is JudgedVerdict.INCONCLUSIVE
    assert report.winner is None
    assert [goal.verdict for goal in report.goals] == [JudgedVerdict.INCONCLUSIVE]
    (failed,) = {value.failed for value in report.table if value.policy == "rate"}
    assert failed is not None
    told = (
        f"{failed.num_failed} of 640 samples of rate ({100 * failed.num_failed / 640:.1f}%) "
        "have no score"
    )
    assert f"INCONCLUSIVE: {told}; counted as 0 for rate, the difference is -0." in words.sentence(
        row
    )
    assert told in report.winner_reason
    assert any(told in note for note in report.notes)
    assert (finished.folder.path / "report.md").read_text().count(told) >= 4
    assert (finished.folder.path / "report.html").read_text().count(told) >= 4


def test_a_verdict_that_holds_with_failed_samples_counted_against_it_is_kept(
    finished: AblationRun,
) -> None:
    fail_wrong_answers(finished, "rate")
    report = made(finished)
    (against_kl,) = (one for one in report.changes if one.arm == "rate")
    assert against_kl.change.value > 0.3
    assert against_kl.verdict is JudgedVerdict.INCONCLUSIVE, "0.6 against 0.6 in truth"
    assert report.winner == "rate", "0.6 against 0.3 in truth"
    assert "samples of rate" in report.winner_reason
    assert [goal.verdict for goal in report.goals] == [JudgedVerdict.PASS]


def test_a_run_with_metrics_of_other_samples_is_refused(finished: AblationRun) -> None:
    write_results(finished.folder.measured(finished.folder.run("rate", 2)))
    made(finished)
    fail_wrong_answers(finished, "rate")
    with pytest.raises(DatasetError, match=r"metrics.json: 0 is not the number of samples.jsonl"):
        made(finished)


def test_metrics_with_equal_numbers_are_named_once() -> None:
    row = change(JudgedVerdict.PASS)
    same = row.model_copy(update={"metric": "reward", "same_as": "pass@1"})
    (note,) = notes_of_equal_metrics([row, same, row, same])
    assert note.startswith("pass@1 and reward of held_out have the same numbers")
    assert notes_of_equal_metrics([row]) == []


def test_an_arm_measured_in_another_way_is_refused_by_its_digest(finished: AblationRun) -> None:
    place = finished.folder.measured(finished.folder.run("kl", 3)).path
    record = json.loads((place / "evaluation.json").read_text())
    record["sets"][0]["scorers"] = ["code@2"]
    (place / "evaluation.json").write_text(json.dumps(record))
    report = made(finished)
    state = {arm.name: arm.state for arm in report.arms}
    assert state == {"first": "COMPARED", "kl": "REFUSED", "rate": "COMPARED"}
    (refused,) = (arm for arm in report.arms if arm.name == "kl")
    assert "evaluator: rubric of held_out: code@1, not code@2 (seed 3)" in refused.reason
    assert "kl" not in report.ranking
    assert "kl" not in {row.arm for row in report.changes}


def test_runs_that_found_signal_under_other_rubrics_are_not_refused(finished: AblationRun) -> None:
    """A group without signal is not trained on, so which rubrics are is a matter of luck."""
    rollouts = RunFolder(finished.folder.run("kl", 3)).rollouts
    lines = [json.loads(line) for line in rollouts.read_text().splitlines()]
    trained = lines[0]["scorer"]

    def score_with(scorer: str) -> None:
        rollouts.write_text("".join(json.dumps(one | {"scorer": scorer}) + "\n" for one in lines))

    score_with("qa@1")
    RunFolder(finished.folder.run("rate", 1)).rollouts.unlink()
    assert {arm.state for arm in made(finished).arms} == {"COMPARED"}
    name = trained.partition("@")[0]
    score_with(f"{name}@another")
    arms = {arm.name: arm for arm in made(finished).arms}
    assert arms["kl"].state == "REFUSED"
    assert f"training rubric {name}: " in arms["kl"].reason
    assert "not another (seed 3)" in arms["kl"].reason


def test_a_moved_folder_has_its_runs_and_its_winner(finished: AblationRun, tmp_path: Path) -> None:
    made(finished)
    before = winner_text(finished.folder)
    moved = AblationFolder.open(finished.folder.path.rename(tmp_path / "elsewhere"))
    assert moved.run("kl", 3).is_dir()
    assert winner_text(moved) == before
    shutil.rmtree(moved.start / "models")
    with pytest.raises(NotFound, match="has no weights"):
        start_weights(moved)


def test_other_first_weights_are_refused(finished: AblationRun, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_policy_folder(other, seed=3)
    initial = finished.folder.run("rate", 1) / "models" / "initial"
    initial.unlink()
    initial.symlink_to(other)
    report = made(finished)
    (refused,) = (arm for arm in report.arms if arm.state == "REFUSED")
    assert refused.name == "rate"
    assert "start's weights" in refused.reason


def give_equal_weights(run: AblationRun, one: str, other: str) -> None:
    for seed in SEEDS:
        digests: list[str] = []
        for name in (one, other):
            place = run.folder.measured(run.folder.run(name, seed)).path
            record = json.loads((place / "evaluation.json").read_text())
            record["policy"]["digest"] = digests[0] if digests else record["policy"]["digest"]
            digests.append(record["policy"]["digest"])
            (place / "evaluation.json").write_text(json.dumps(record))


def test_an_arm_that_ends_in_the_same_weights_has_no_effect(finished: AblationRun) -> None:
    give_equal_weights(finished, "first", "kl")
    report = made(finished)
    assert {arm.name: arm.state for arm in report.arms}["kl"] == "NO EFFECT"
    assert "kl" not in report.ranking


@pytest.mark.parametrize(
    ("setting", "state"), [("grpo.stop", "NO EFFECT"), ("grpo.kl_weight", "COMPARED")]
)
def test_an_arm_that_trained_on_the_same_answers_has_no_effect(
    finished: AblationRun, setting: str, state: str
) -> None:
    unknown = SwitchVerdict.UNKNOWN
    parts = Decomposition(
        arm="rate", previous="kl", run="r", changed={setting: ("a", "b")}, batches=[],
        sampler=None, verdict=unknown, reason="nobody knows",
    )  # fmt: skip
    write_atomically(finished.folder.decomposition("rate"), parts.model_dump_json())
    (row,) = (arm for arm in made(finished).arms if arm.name == "rate")
    assert row.state == state
    if state == "NO EFFECT":
        assert row.reason == "it trained on the answers and rewards of kl in every step and seed"
    for number, other in enumerate(make_groups(2)):
        run = RunFolder(finished.folder.run("rate", 3))
        append_rollout(run.rollouts, other, 2, 2**24)
        if number == 0:  # the others of the step are not stored
            run.record("step", **step_event(2))
            assert {one.name: one.state for one in made(finished).arms}["rate"] == "COMPARED"
    assert {one.name: one.state for one in made(finished).arms}["rate"] == "COMPARED"


@pytest.mark.parametrize("has_steps", [False, True])
def test_arms_without_any_update_are_unknown_and_compared(
    finished: AblationRun, has_steps: bool
) -> None:
    """Without signal, there is no step; or its gradient is 0, where flat groups are trained on."""
    give_equal_weights(finished, "kl", "rate")
    for name in ("kl", "rate"):
        for seed in SEEDS:
            run = RunFolder(finished.folder.run(name, seed))
            run.events.unlink()
            if has_steps:
                run.record("step", **step_event(1, grad_norm=0.0))
    report = made(finished)
    (unknown,) = (arm for arm in report.arms if arm.name == "rate")
    assert unknown.state == "UNKNOWN"
    assert unknown.reason == "no update was made in it or in kl, as where no group has signal"
    assert "rate" in report.ranking
    assert [row.verdict for row in report.changes if row.arm == "rate"] == [
        JudgedVerdict.INCONCLUSIVE
    ]
    RunFolder(finished.folder.run("kl", 2)).record("step", **step_event(2))
    assert {arm.name: arm.state for arm in made(finished).arms}["rate"] == "NO EFFECT"


def test_with_a_missed_planted_change_nothing_is_ranked(finished: AblationRun) -> None:
    missed = planted("p", SwitchVerdict.ACTS, SwitchVerdict.NO_EFFECT)
    write_controls(finished.folder, PlantedChanges(run="r", controls=[missed]))
    report = made(finished)
    assert not report.controls_work
    assert (report.ranking, report.changes, report.winner) == ([], [], None)
    assert not report.succeeded
    assert {(row.verdict, row.reason) for row in report.goals} == {
        (JudgedVerdict.INCONCLUSIVE, "the checks of this ablation do not work: p not found")
    }
    assert report.winner_reason == "the checks of this ablation do not work: p not found"
    assert "do not work" in (finished.folder.path / "report.md").read_text()


def test_an_arm_after_one_that_was_not_trained_is_compared_with_the_last_that_was(
    finished: AblationRun,
) -> None:
    plan: AblationPlan = finished.plan
    first, _, rate = plan.arms
    assert previous_trained(plan, rate, [first]) is first


def test_a_failed_arm_is_named_with_its_reason_and_is_in_no_number(finished: AblationRun) -> None:
    finished.failed["kl"] = "run done-kl-s1 cannot finish as it is: planted"
    trained = [arm for arm in finished.plan.arms if arm.name != "kl"]
    report = make_report(finished, trained)
    (failed,) = (arm for arm in report.arms if arm.name == "kl")
    assert (failed.state, failed.reason) == ("FAILED", finished.failed["kl"])
    assert [(row.arm, row.against) for row in report.changes] == [("rate", "first")]
    assert "kl" not in {*report.ranking, *(row.policy for row in report.table)}
    assert report.notes[0] == "kl has failed: it is not ranked, and its row says why."
    console = Console(record=True, width=200)
    show_report(report, console)
    assert "kl: FAILED: run done-kl-s1 cannot finish" in console.export_text()
    assert "FAILED: run done-kl-s1" in (finished.folder.path / "report.md").read_text()
