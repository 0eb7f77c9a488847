"""Each rule sees its fault in the events of a real run with that fault planted, and no other.

`small_run.jsonl` has events of a run of the demo with 150 steps of SFT and 14 of GRPO.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import RewardComponent, Scored, ScoredGroup, Status
from assay_trainer.browser.diagnosis.diagnose import diagnose
from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.judged_groups import JudgedGroup
from assay_trainer.browser.opening import OpenedRun, open_for_reading
from assay_trainer.browser.pages.file_page import file_page
from tests.support.browser.stored_runs import keep, make_group, make_run

REAL = Path(__file__).with_name("small_run.jsonl")
RUNBOOK = (Path(__file__).parents[5] / "docs" / "runbook.md").read_text()
Step = dict[str, Any]
Change = Callable[[int, Step], Step]
#: The real run is short, with many flat groups: what it does find is planted away.
HEALTHY: Step = {"num_without_signal": 1, "num_groups": 16, "num_played": 20, "publish_s": 0.1}


def events(kind: str, change: Change) -> list[str]:
    found = []
    for line in REAL.read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == kind:
            event["data"] |= change(event["data"]["step"], event["data"])
        found.append(json.dumps(event))
    return found


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OpenedRun]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(change: Change = lambda step, data: {}, kind: str = "step") -> OpenedRun:
        lines = events(kind, change)
        if kind != "step":
            lines = [planted(one) for one in lines]
        else:
            lines = events("step", lambda step, data: HEALTHY | change(step, data))
        run = make_run(tmp_path / f"r{len(list(tmp_path.iterdir()))}")
        run.events.write_text("\n".join(lines) + "\n")
        return open_for_reading(run)

    return make


def planted(line: str) -> str:
    event = json.loads(line)
    event["data"] |= HEALTHY if event["kind"] == "step" else {}
    return json.dumps(event)


def rules(opened: OpenedRun) -> list[str]:
    return [one.rule for one in opened.summary().findings]


def mismatch(kl: float) -> Step:
    return {
        "mismatch": {
            "num_tokens": 100,
            "mean_abs_nats": kl,
            "max_abs_nats": kl,
            "kl_k1_nats": kl,
            "kl_k3_nats": kl,
        }
    }


#: A rule, a planted fault that raises it, and one on the other side of its limit.
PLANTED: list[tuple[str, Change, Change]] = [
    (
        "no_signal",
        lambda step, data: {"num_without_signal": 13},
        lambda step, data: {"num_without_signal": 11},
    ),
    (
        "small_steps",
        lambda step, data: {"num_groups": 15 if step < 10 else 16},
        lambda step, data: {"num_groups": 15 if step < 7 else 16},
    ),
    (
        "truncation",
        lambda step, data: {"truncated_share": 0.12},
        lambda step, data: {"truncated_share": 0.08},
    ),
    (
        "entropy_collapse",
        lambda step, data: {"entropy": 0.5 if step < 8 else 0.1},
        lambda step, data: {"entropy": 0.5 if step < 8 else 0.2},
    ),
    (
        "entropy_explosion",
        lambda step, data: {"entropy": 0.5 if step < 8 else 1.2},
        lambda step, data: {"entropy": 0.5 if step < 8 else 0.9},
    ),
    (
        "reward_falls",
        lambda step, data: {"reward": 0.5 - 0.02 * step},
        lambda step, data: {"reward": 0.5 - 0.02 * (step % 2)},
    ),
    (
        "reward_without_gain",
        lambda step, data: {"reward": 0.02 * step},
        lambda step, data: {"reward": 0.02 * (step % 2)},
    ),
    (
        "clipping",
        lambda step, data: {"clipped_low": 0.1, "clipped_high": 0.15},
        lambda step, data: {"clipped_low": 0.1, "clipped_high": 0.05},
    ),
    ("gradient", lambda step, data: {"grad_norm": 11.0}, lambda step, data: {"grad_norm": 9.0}),
    (
        "moved_weights",
        lambda step, data: {"moved_share": 0.4},
        lambda step, data: {"moved_share": 0.6},
    ),
    ("mismatch", lambda step, data: mismatch(0.12), lambda step, data: mismatch(0.08)),
    (
        "refused_too_old",
        lambda step, data: {"refused": {"too_old": 5}},
        lambda step, data: {"refused": {"too_old": 3}},
    ),
    (
        "refused_unknown_version",
        lambda step, data: {"refused": {"unknown_version": 5}},
        lambda step, data: {"refused": {"unknown_version": 3}},
    ),
    (
        "staleness",
        lambda step, data: {"staleness_mean": 1.2},
        lambda step, data: {"staleness_mean": 1.0},
    ),
    (
        "long_answers_dropped",
        lambda step, data: {"length_mean": 20.0, "dropped_length_mean": 35.0},
        lambda step, data: {"length_mean": 20.0, "dropped_length_mean": 25.0},
    ),
    (
        "correction_masked_share",
        lambda step, data: {"masked_share": 0.35},
        lambda step, data: {"masked_share": 0.25},
    ),
    (
        "correction_truncated_weight_share",
        lambda step, data: {"truncated_weight_share": 0.35},
        lambda step, data: {"truncated_weight_share": 0.25},
    ),
    (
        "failures_sandbox",
        lambda step, data: {"outcomes": {"accepted": 90}, "failures": {"sandbox": 10}},
        lambda step, data: {"outcomes": {"accepted": 96}, "failures": {"sandbox": 4}},
    ),
    ("set_aside", lambda step, data: {"num_set_aside": 2}, lambda step, data: {"num_set_aside": 1}),
    (
        "slow_rollouts",
        lambda step, data: {"rollouts_s": 4.0, "update_s": 1.0, "step_s": 6.0},
        lambda step, data: {"rollouts_s": 2.0, "update_s": 1.0, "step_s": 6.0},
    ),
    (
        "slow_publication",
        lambda step, data: {"publish_s": 0.4, "step_s": 1.0},
        lambda step, data: {"publish_s": 0.2, "step_s": 1.0},
    ),
    (
        "slow_checkpoints",
        lambda step, data: {"checkpoint_wait_s": 0.3, "step_s": 1.0},
        lambda step, data: {"checkpoint_wait_s": 0.1, "step_s": 1.0},
    ),
]


@pytest.mark.parametrize(("rule", "fault", "sound"), PLANTED, ids=[one[0] for one in PLANTED])
def test_a_rule_sees_its_fault_alone(
    opened: Callable[..., OpenedRun], rule: str, fault: Change, sound: Change
) -> None:
    found = opened(fault).summary().findings
    assert [one.rule for one in found] == [rule]
    assert re.search(r"\d.*\(limit ", found[0].message)
    assert re.search(r"[a-z]+\.[a-z_]+|ASSAY_\w+|`assay |inference", found[0].fix)
    assert not found[0].alert or f"### {found[0].alert}\n" in RUNBOOK
    assert rules(opened(sound)) == []


def test_a_new_stage_of_a_curriculum_is_no_change_of_the_policy(
    opened: Callable[..., OpenedRun],
) -> None:
    def change(step: int, data: Step) -> Step:
        if step < 8:
            return {"curriculum_stage": "easy", "entropy": 0.5, "reward": 0.9 + step % 2 / 50}
        return {"curriculum_stage": "hard", "entropy": 1.2, "reward": 0.1 + step % 2 / 50}

    assert rules(opened(change)) == []


def test_a_fall_within_a_stage_is_told_with_its_stage(opened: Callable[..., OpenedRun]) -> None:
    def change(step: int, data: Step) -> Step:
        return {"curriculum_stage": "easy" if step < 3 else "hard", "reward": 0.5 - 0.02 * step}

    (found,) = opened(change).summary().findings
    assert found.rule == "reward_falls"
    assert " in the stage hard (limit " in found.message


def test_the_real_run_as_it_is_teaches_little(tmp_path: Path) -> None:
    run = make_run(tmp_path / "real")
    run.events.write_text(REAL.read_text())
    found = open_for_reading(run, tmp_path / "index").summary().findings
    told = {one.rule: one for one in found}
    assert told["no_signal"].message.startswith("64% of the groups had equal rewards")
    assert told["no_signal"].value == pytest.approx(0.64, abs=0.01)
    assert "take easier tasks in data.train" in told["no_signal"].fix


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        (lambda step: {"loss": 2.0 - step / 2000}, ["sft_learns_nothing"]),
        (lambda step: {"validation_loss": 1.0 if step < 100 else 1.1}, ["sft_overfits"]),
        (lambda step: {"validation_loss": 1.0 if step < 100 else 1.01}, []),
    ],
)
def test_sft_is_told_by_its_losses(
    opened: Callable[..., OpenedRun], losses: Callable[[int], Step], expected: list[str]
) -> None:
    assert rules(opened(lambda step, data: losses(step), "sft_step")) == expected


@pytest.mark.parametrize(("score_s", "expected"), [(2.0, ["slow_verifiers"]), (0.4, [])])
def test_slow_verifiers_are_told_by_the_stored_groups(
    opened: Callable[..., OpenedRun], score_s: float, expected: list[str]
) -> None:
    run = opened(lambda step, data: {"rollouts_s": 0.5, "update_s": 0.4, "step_s": 1.0})
    for number in range(4):
        group = make_group(14, number, "accepted", "wrong_answer")
        keep(run.folder, 14, group.model_copy(update={"score_time_s": score_s}))
    run.index.complete()
    assert rules(run) == expected


def judged(number: int, judge: str, label: str) -> ScoredGroup:
    part = RewardComponent(name="judge", value=1.0, weight=1.0, detail=f"{label} by {judge}")
    reward = Scored(value=1.0, outcome=Status.ACCEPTED, components=(part,))
    group = make_group(1 + number // 4, number, "accepted", "accepted")
    return group.model_copy(update={"rewards": (reward, reward)})


@pytest.mark.parametrize(
    ("judge", "label", "expected"),
    [
        ("large", "CORRECT", []),
        ("small", "CORRECT", ["judge_changed"]),
        ("large", "UNSURE", ["judge_unsure"]),
    ],
)
def test_a_drift_of_the_judge_is_told_by_the_stored_verdicts(
    opened: Callable[..., OpenedRun], judge: str, label: str, expected: list[str]
) -> None:
    run = opened()
    for number in range(40):
        is_late = number >= 20
        one = judged(number, judge if is_late else "large", label if is_late else "CORRECT")
        keep(run.folder, 1 + number // 4, one)
    run.index.complete()
    assert rules(run) == expected


def test_few_judged_groups_tell_nothing() -> None:
    sure = JudgedGroup(1, "a", Counter(CORRECT=4))
    unsure = JudgedGroup(2, "a", Counter(UNSURE=4))
    for number, expected in ((7, []), (8, ["judge_unsure"])):
        judged_groups = [sure] * number + [unsure] * number
        found = diagnose(DiagnosedFacts(judged=judged_groups))
        assert [one.rule for one in found] == expected


def test_the_pages_show_the_findings(opened: Callable[..., OpenedRun]) -> None:
    html = file_page(opened(lambda step, data: {"truncated_share": 0.5}), 2**24).html
    assert "What is wrong, and what to change" in html
    assert "50% of the sampled answers were cut off (limit 10%)" in html
    assert "What is wrong" not in file_page(opened(), 2**24).html


def test_a_run_without_steps_has_no_findings(tmp_path: Path) -> None:
    folder: RunFolder = make_run(tmp_path / "empty")
    assert open_for_reading(folder, tmp_path / "index").summary().findings == []
