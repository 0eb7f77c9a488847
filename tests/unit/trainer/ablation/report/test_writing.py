"""The report of an ablation has every finding, and hostile names do no harm."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import NotFound
from assay_shared.runs.run_folder import write_json
from assay_trainer.ablation.ablation_folder import AblationFolder
from assay_trainer.ablation.decomposition.findings import (
    BatchParts,
    Decomposition,
    PlantedChange,
    SwitchVerdict,
)
from assay_trainer.ablation.judging.findings import (
    AblationReport,
    ArmCurvePoint,
    ArmRow,
    ChangeRow,
    GoalRow,
    JudgedVerdict,
    NoiseRow,
    TableRow,
    ValueBounds,
)
from assay_trainer.ablation.report import words
from assay_trainer.ablation.report.winner import winner_of
from assay_trainer.ablation.report.writing import write_report

HOSTILE = "<script>x</script>|`"


def batch(direction: float) -> BatchParts:
    parts = {"difference": direction, "scale": 1.0, "direction": direction, "noise": 0.0}
    change = {f"change_{name}": value for name, value in parts.items() if name != "noise"}
    return BatchParts(step=1, num_groups=4, num_updates=1, **parts, **change)


def planted(name: str, found: SwitchVerdict, expected: SwitchVerdict) -> PlantedChange:
    return PlantedChange(
        name=name, planted=name, expected=[expected], found=found, reason="", parts=batch(0.5)
    )


def change(verdict: JudgedVerdict, arm: str = "b", value: float = 0.1) -> ChangeRow:
    return ChangeRow(
        arm=arm,
        against="a",
        set="held_out",
        metric="pass@1",
        change=ValueBounds(value=value, low=value - 0.05, high=value + 0.05),
        p=0.001,
        p_corrected=0.002,
        num_seeds=4,
        num_tasks=50,
        freedom=3.0,
        detectable=0.08,
        verdict=verdict,
    )


def make_report(**changes: Any) -> AblationReport:
    value = TableRow(
        policy="b",
        kind="arm",
        set="held_out",
        metric="pass@1",
        value=ValueBounds(value=0.5, low=0.4, high=0.6),
        seeds=[0.4, 0.6],
        num_tasks=50,
    )
    decomposition = Decomposition(
        arm="b",
        previous="a",
        run="r",
        changed={"grpo.loss": ('"dapo"', '"grpo"')},
        batches=[batch(0.2), batch(0.3)],
        sampler=None,
        verdict=SwitchVerdict.ACTS,
        reason="",
    )
    arm = {"against": "a", "previous": "a", "changed": decomposition.changed}
    values: dict[str, Any] = {
        "name": "n",
        "mode": "cumulative",
        "seeds": [1, 2, 3, 4],
        "confidence": 0.95,
        "metrics": ["pass@1"],
        "controls_work": True,
        "controls": [
            planted("temperature_twice", SwitchVerdict.NO_EFFECT, SwitchVerdict.NO_EFFECT)
        ],
        "arms": [
            ArmRow(name="a", previous=None, against=None, changed={}, state="COMPARED", rank=2),
            ArmRow(name="b", state="COMPARED", decomposition=decomposition, rank=1, **arm),
            ArmRow(name="noop", state="NO EFFECT", reason=HOSTILE, **arm),
        ],
        "table": [value, value.model_copy(update={"policy": HOSTILE, "kind": "trivial"})],
        "changes": [change(JudgedVerdict.PASS)],
        "to_baseline": [change(JudgedVerdict.PASS)],
        "noise": [
            NoiseRow(
                set="held_out",
                metric="pass@1",
                num_pairs=12,
                deviation=0.01,
                median=0.012,
                largest=0.03,
                floor=0.028,
            )
        ],
        "goals": [GoalRow(goal="g", found=None, verdict=JudgedVerdict.INCONCLUSIVE, reason="few")],
        "ranking": ["b", "a"],
        "winner": "b",
        "winner_reason": "PASS: b has pass@1 +0.1 against a",
        "start_digest": "0" * 64,
        "curves": [
            ArmCurvePoint(
                arm=name,
                seed=seed,
                step=step,
                drawn_tokens=100.0 * step,
                name="r",
                value=0.1 * step,
            )
            for name in ("a", "b")
            for seed in (1, 2)
            for step in (1, 2, 3)
        ],
        "notes": ["a note"],
    }
    return AblationReport.model_validate(values | changes)


def written(folder: Path, report: AblationReport) -> tuple[str, str]:
    write_report(report, AblationFolder(folder))
    return (folder / "report.md").read_text(), (folder / "report.html").read_text()


@pytest.mark.slow
def test_the_page_has_pictures_verdicts_and_noise_and_the_json_reads_back(tmp_path: Path) -> None:
    report = make_report()
    text, page = written(tmp_path, report)
    assert AblationReport.model_validate_json((tmp_path / "report.json").read_bytes()) == report
    assert page.count("data:image/png;base64,") == 4
    for one in ("NO EFFECT", "PASS", "temperature_twice", "95%, if normal", "a note", "b has won"):
        assert one in text
        assert one in page
    assert "<script>x" not in page
    assert HOSTILE not in text


def test_if_a_planted_change_is_missed_the_report_says_that_its_checks_do_not_work(
    tmp_path: Path,
) -> None:
    missed = planted("clip_on_policy", SwitchVerdict.ACTS, SwitchVerdict.NO_EFFECT)
    report = make_report(
        controls_work=False,
        controls=[missed],
        ranking=[],
        winner=None,
        changes=[],
        to_baseline=[],
        curves=[],
        table=[],
    )
    text, page = written(tmp_path, report)
    told = "The checks of this ablation do not work: clip_on_policy not found. Nothing is ranked."
    assert told in text
    assert told in page
    assert not report.succeeded


def test_a_difference_that_cannot_be_found_has_no_number(tmp_path: Path) -> None:
    blind = change(JudgedVerdict.INCONCLUSIVE).model_copy(update={"detectable": None})
    for one in written(tmp_path, make_report(changes=[blind], curves=[], table=[])):
        assert "nothing could have been shown" in one


def test_a_missed_goal_is_a_failure_of_the_command() -> None:
    missed = GoalRow(goal="g", found=None, verdict=JudgedVerdict.FAIL)
    assert make_report().succeeded
    assert not make_report(goals=[missed]).succeeded


@pytest.mark.parametrize(
    ("ranking", "verdict", "winner", "told"),
    [
        (["b", "a"], JudgedVerdict.PASS, "b", "PASS"),
        (["b", "a"], JudgedVerdict.INCONCLUSIVE, None, "INCONCLUSIVE"),
        (["a", "b"], JudgedVerdict.PASS, None, "no arm has a better pass@1 than the baseline, a"),
        ([], JudgedVerdict.PASS, None, "no arm is ranked"),
    ],
)
def test_only_an_arm_shown_to_be_better_than_the_baseline_wins(
    ranking: list[str], verdict: JudgedVerdict, winner: str | None, told: str
) -> None:
    found, reason = winner_of(ranking, "a", [change(verdict)], "pass@1")
    assert found == winner
    assert told in reason


def test_an_ablation_without_a_report_has_no_winner(tmp_path: Path) -> None:
    from assay_trainer.ablation.report.winner import winner_text

    write_json(tmp_path / "ablation.json", {})
    with pytest.raises(NotFound, match="no report yet"):
        winner_text(AblationFolder(tmp_path))


def test_numbers_have_digits_enough_and_infinite_ones_are_refused() -> None:
    assert words.bounds(ValueBounds(value=0.1234, low=0.1, high=0.2)) == "0.123 (0.100 to 0.200)"
    assert words.bounds(ValueBounds(value=0.1), signed=True) == "+0.100"
    assert words.p_text(0.0001) == "below 0.001"
    with pytest.raises(ValueError, match="finite"):
        ValueBounds(value=math.inf)
    assert json.loads(make_report().model_dump_json())["form"] == 1


def test_the_note_of_power_is_of_every_comparison_in_the_ranked_metric() -> None:
    found = change(JudgedVerdict.FAIL, value=-0.1)
    wide = found.model_copy(update={"arm": "c", "detectable": 0.2})
    full = found.model_copy(update={"arm": "d", "detectable": None})
    (note,) = words.of_power([found, wide])
    assert "50 tasks and 4 seeds would have shown a difference of 0.080 to 0.200" in note
    assert words.detectable(full) == "nothing could have been shown"
    few = full.model_copy(update={"num_seeds": 2})
    assert words.detectable(few) == "nothing could have been decided"
    assert [one for one in words.of_power([full, wide]) if "nothing could" in one] == [
        "d against a: nothing could have been shown in pass@1 with 50 tasks and 4 seeds: no "
        "difference that it can have would be found in 80% of repeats. It takes more seeds."
    ]
