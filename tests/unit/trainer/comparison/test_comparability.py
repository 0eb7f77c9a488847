"""Evaluations that cannot be compared, or only with a warning."""

import shutil
from pathlib import Path

import pytest

from assay_shared.errors import InvalidInput
from assay_trainer.comparison.arms import ComparedArm
from assay_trainer.comparison.comparing import ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import read_arm
from tests.support.evaluations import RIGHT, WRONG, sampled, write_evaluation

TASKS = {f"t{i}": [RIGHT if i % 2 else WRONG] for i in range(20)}
PLAN, ALLOWED = ComparisonPlan(), ComparisonPlan(allow_different=True)


def make_arm(tmp_path: Path, name: str, **values: object) -> ComparedArm:
    values = {"sets": {"m": TASKS}} | values
    return read_arm(name, [str(write_evaluation(tmp_path / name, **values))])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"engine": {"kind": "vllm", "dtype": "float32"}}, "engine.dtype: bfloat16 in a, float32"),
        ({"scorers": ("code@2",)}, "m.scorers: code@1 in a, code@2 in b"),
        ({"set_digest": "6" * 64}, "m.digest: 555555555555 in a, 666666666666 in b"),
        ({"protocol": sampled(4)}, "protocol.samples_per_task: 1 in a, 4 in b"),
    ],
)
def test_evaluations_that_differ_are_compared_only_on_demand(
    tmp_path: Path, values: dict[str, object], message: str
) -> None:
    baseline, other = make_arm(tmp_path, "a"), make_arm(tmp_path, "b", **values)
    with pytest.raises(InvalidInput) as raised:
        compare_arms(baseline, [other], PLAN)
    assert message in str(raised.value)
    assert "--allow-different" in str(raised.value)
    assert any(message in one for one in compare_arms(baseline, [other], ALLOWED).different)


def test_another_sampling_seed_is_no_difference(tmp_path: Path) -> None:
    arms = [make_arm(tmp_path, f"s{seed}", protocol=sampled(1, seed=seed)) for seed in (0, 1)]
    assert compare_arms(arms[0], arms[1:], PLAN).different == []


def test_another_k_is_left_out_and_told(tmp_path: Path) -> None:
    four = {"m": {id_: outcomes * 4 for id_, outcomes in TASKS.items()}}
    first = make_arm(tmp_path, "a", sets=four, protocol=sampled(4, k=(1, 4)))
    second = make_arm(tmp_path, "b", sets=four, protocol=sampled(4, k=(1, 2)))
    data = compare_arms(first, [second], PLAN)
    assert {row.metric for row in data.rows if row.metric.startswith("pass@")} == {"pass@1"}
    assert any(note.startswith("pass@2, pass@4: not a number of") for note in data.notes)


def test_other_prompts_under_one_id_are_always_refused(tmp_path: Path) -> None:
    other = make_arm(tmp_path, "b", prompt="Another {}.".format)
    with pytest.raises(InvalidInput, match="20 tasks of m have other prompts in b than in a: t0"):
        compare_arms(make_arm(tmp_path, "a"), [other], ALLOWED)


def test_identical_files_are_refused(tmp_path: Path) -> None:
    first = make_arm(tmp_path, "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(InvalidInput, match="are the same evaluation"):
        compare_arms(first, [read_arm("copy", [str(tmp_path / "copy")])], PLAN)


def test_the_same_weights_are_told(tmp_path: Path) -> None:
    digest = "9" * 64
    arms = [make_arm(tmp_path, name, digest=digest, engine={"n": name[:0]}) for name in ("a", "b")]
    assert any(
        "are the same policy" in note for note in compare_arms(arms[0], arms[1:], PLAN).notes
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sets": {"other": TASKS}}, "no set is in both: a has m, and the others have other"),
        ({"sets": {"m": {f"x{i}": [RIGHT] for i in range(5)}}}, "no task of m has scored samples"),
        ({"sets": {"m": {id_: [None] for id_ in TASKS}}}, "samples of m, and 20 without a score"),
        ({"sets": {"m": {id_: [] for id_ in TASKS}}}, "samples of m, and 20 without a score"),
    ],
)
def test_nothing_to_compare_is_an_error_that_says_why(
    tmp_path: Path, values: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        compare_arms(make_arm(tmp_path, "a"), [make_arm(tmp_path, "b", **values)], ALLOWED)
    assert message in str(raised.value)


def test_one_side_alone_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    first = make_arm(tmp_path, "a")
    with pytest.raises(InvalidInput, match="needs two sides"):
        compare_arms(first, [], PLAN)
    second = make_arm(tmp_path, "b")
    with pytest.raises(InvalidInput, match="two arms are called 'a'"):
        compare_arms(first, [ComparedArm("a", second.measurements)], PLAN)


def test_what_one_side_did_not_record_is_told(tmp_path: Path) -> None:
    first = make_arm(tmp_path, "a")
    second = make_arm(tmp_path, "b", engine={"kind": "vllm"}, scorers=())
    notes = compare_arms(first, [second], PLAN).notes
    assert any("b does not record engine.dtype, m.scorers" in note for note in notes)
