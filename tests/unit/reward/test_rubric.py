from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from assay_reward.measurement import Instruments, Measured
from assay_reward.rubric import Rubric, Rubrics
from assay_reward.score import Scorer, combine
from assay_shared.admission import Gate
from assay_shared.errors import ConfigError, NotFound, SandboxFault
from assay_shared.symbolic import Symbolic
from assay_shared.types import Failure, Scored, ScoreRequest, Status, StdinCase, Unscored
from tests.fakes import FAILURE, FakeJudge, FakeSandbox, make_task

BLEND = {
    "name": "blend",
    "description": "d",
    "components": [
        {"verifier": "pass_ratio", "weight": 2.0},
        {"verifier": "accepted", "weight": 1.0},
    ],
}


def load(folder: Path, text: str) -> Rubrics:
    (folder / "mine.yaml").write_text(text)
    return Rubrics(folder)


def test_the_built_in_rubrics_load() -> None:
    names = [rubric.name for rubric in Rubrics(None).all()]
    assert names == ["code.blend", "code.dense", "code.sparse", "math", "qa"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\ndescription: d\ncomponents: []", "components: .*at least 1 item"),
        ("name: x\ndescription: d", "components: missing"),
        ("name: X\ndescription: d\ncomponents: [{verifier: math, weight: 1}]", "name: .*pattern"),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: mth, weight: 1}]",
            "no verifier is called 'mth'; known: accepted, judge, math, pass_ratio",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: 0}]",
            "components.0.weight: .*greater than 0",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: .inf}]",
            "components.0.weight",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, wieght: 1}]",
            "components.0.wieght: unknown key .*did you mean weight",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: 1},"
            " {verifier: math, weight: 2}]",
            "'math' is listed twice",
        ),
    ],
)
def test_a_bad_rubric_stops_the_start_and_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, text)


def test_the_scorer_names_what_is_computed_and_not_how_it_is_described() -> None:
    rubric = Rubric.model_validate(BLEND)
    same = Rubric.model_validate(BLEND | {"description": "other words"})
    other = Rubric.model_validate(
        BLEND | {"components": [{"verifier": "pass_ratio", "weight": 2.5}]}
    )
    assert rubric.scorer == same.scorer
    assert rubric.scorer != other.scorer
    assert rubric.scorer.startswith("blend@")
    assert rubric.info().shares == pytest.approx({"pass_ratio": 2 / 3, "accepted": 1 / 3})


def test_a_reward_is_the_weighted_sum() -> None:
    reward = combine(
        Rubric.model_validate(BLEND),
        [Measured(0.5, Status.WRONG_ANSWER, "2/4"), Measured(0.0, Status.WRONG_ANSWER)],
    )
    assert isinstance(reward, Scored)
    assert reward.value == 1.0
    assert reward.outcome is Status.WRONG_ANSWER
    assert [(c.name, c.value, c.weight) for c in reward.components] == [
        ("pass_ratio", 0.5, 2.0),
        ("accepted", 0.0, 1.0),
    ]


@pytest.mark.parametrize("missing", [0, 1])
def test_one_missing_component_leaves_no_reward_at_all(missing: int) -> None:
    """A sum over what is there would put the missing term at 0 beside its siblings."""
    measured: list[Measured | Failure] = [Measured(1.0, Status.ACCEPTED)] * 2
    measured[missing] = FAILURE
    reward = combine(Rubric.model_validate(BLEND), measured)
    assert reward == Unscored(failure=FAILURE)


async def test_a_group_is_scored_in_order_and_failures_stay_where_they_are() -> None:
    sandbox = FakeSandbox(SandboxFault("no slot"))
    scorer = Scorer(
        Rubrics(None),
        Instruments(sandbox, FakeJudge(), Symbolic(1.0)),
        Gate(4, 4),
        CollectorRegistry(),
    )
    task = make_task(tests=(StdinCase(stdin="", expected_stdout=""),) * 2)
    response = await scorer.score(
        ScoreRequest(task=task, answers=("pass 2", "fail", "pass 1"), rubric="code.blend")
    )
    assert [r.value if isinstance(r, Scored) else None for r in response.rewards] == [
        1.0,
        None,
        0.25,
    ]
    assert response.scorer.startswith("code.blend@")
    with pytest.raises(NotFound, match=r"no rubric is called 'code.dens' \(known: code.blend"):
        await scorer.score(ScoreRequest(task=task, answers=("pass 1",), rubric="code.dens"))
