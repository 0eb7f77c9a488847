import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from assay_reward.group import combine
from assay_reward.rubric import Rubric, Rubrics
from assay_reward.verifiers import VERIFIERS, code
from assay_reward.verifiers.verifier import Measurement, ValueRange, Verifier
from assay_shared.errors import ConfigError
from assay_shared.types import Failure, Scored, Status, Unscored
from tests.support.fakes import FAILURE

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
    assert {"code.blend", "code.dense", "code.sparse", "math", "qa"} <= set(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\ndescription: d\ncomponents: []", "components: .*at least 1 item"),
        ("name: x\ndescription: d", "components: missing"),
        ("name: X\ndescription: d\ncomponents: [{verifier: math, weight: 1}]", "name: .*pattern"),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: mth, weight: 1}]",
            "no verifier is called 'mth'; known: accepted, ",
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
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: 1},"
            " {verifier: math, weight: 2, name: again}]",
            "the very same thing",
        ),
        ("name: x\ndescription: d\ncomponents: [{verifier: math, gate: 1}]", "nothing counts"),
        ("name: x\ndescription: d\ncomponents: [{verifier: math}]", "math: .* needs a weight"),
        (
            "name: x\ndescription: d\naggregate: product\n"
            "components: [{verifier: math, weight: 1}]",
            "none of a product has one",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: 1},"
            " {verifier: accepted, gate: 1.5}]",
            "the gate of accepted is 1.5: within 0 to 1",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: 1},"
            " {verifier: accepted, gate: 0}]",
            "must be above the lowest",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: 1, clip: [1, 2]}]",
            "math cannot change anything",
        ),
        (
            "name: x\ndescription: d\ncomponents: [{verifier: math, weight: 1, options: {a: 1}}]",
            "unknown key in options of math",
        ),
        (
            "name: x\ndescription: d\naggregate: product\nrecommend: {normalise: components}\n"
            "components: [{verifier: math}]",
            "needs aggregate: sum",
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


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier with values down without end, as `VERIFIERS` could have."""
    steps = Verifier(
        code.PASS_RATIO.measure, code.CodeOptions, span=lambda _: ValueRange(-math.inf, 10.0)
    )
    monkeypatch.setitem(VERIFIERS, "steps", steps)
    wide = Verifier(
        code.PASS_RATIO.measure, code.CodeOptions, span=lambda _: ValueRange(-50.0, 100.0)
    )
    monkeypatch.setitem(VERIFIERS, "wide", wide)


@pytest.mark.usefixtures("unbounded")
def test_an_unbounded_component_needs_a_clip() -> None:
    component = {"verifier": "steps", "weight": 0.2}
    whole = {"name": "x", "description": "d", "components": [component]}
    with pytest.raises(ValidationError, match="steps is unbounded: from -inf to 10; give it a"):
        Rubric.model_validate(whole)
    rubric = Rubric.model_validate(whole | {"components": [component | {"clip": (-2, 10)}]})
    assert rubric.reward([-100.0]) == pytest.approx(-0.4)
    assert [rubric.info().lowest, rubric.info().highest] == pytest.approx([-0.4, 2.0])


@pytest.mark.usefixtures("unbounded")
def test_shares_are_of_what_moves_the_reward_and_not_of_the_weights() -> None:
    """Weights of 0.5, 0.3 and 0.2 with real shares of 88, 7 and 5 percent."""
    rubric = Rubric.model_validate(
        {
            "name": "x",
            "description": "d",
            "components": [
                {"verifier": "wide", "weight": 0.5},
                {"verifier": "pass_ratio", "weight": 6.0},
                {"verifier": "steps", "weight": 0.2, "clip": (-10, 10)},
            ],
        }
    )
    shares = {name: round(100 * share) for name, share in rubric.shares().items()}
    assert shares == {"wide": 88, "pass_ratio": 7, "steps": 5}


def measured(*values: float) -> list[Measurement | Failure]:
    """Return values of an answer's components; accepted if it is 1."""
    outcomes = {1.0: Status.ACCEPTED}
    return [Measurement(v, outcomes.get(v, Status.WRONG_ANSWER), "why") for v in values]


def test_a_reward_is_the_weighted_sum() -> None:
    reward = combine(Rubric.model_validate(BLEND), measured(0.5, 0.0))
    assert isinstance(reward, Scored)
    assert reward.value == 1.0
    assert reward.outcome is Status.WRONG_ANSWER
    assert [(c.name, c.value, c.weight) for c in reward.components] == [
        ("pass_ratio", 0.5, 2.0),
        ("accepted", 0.0, 1.0),
    ]


def test_a_product_is_zero_where_one_value_is() -> None:
    rubric = rubric_of("product", {"verifier": "pass_ratio"}, {"verifier": "math"})
    assert rubric.reward([0.5, 0.5]) == 0.25
    assert rubric.reward([1.0, 0.0]) == 0.0
    assert rubric.shares() == {"pass_ratio": 0.5, "math": 0.5}


def test_in_a_lexicographic_order_nothing_later_makes_up_for_a_step_before_it() -> None:
    rubric = rubric_of(
        "lexicographic",
        {"verifier": "accepted"},
        {"verifier": "pass_ratio", "levels": 10},
        {"verifier": "math"},
    )
    ranked: list[list[float]] = [
        [0, 0, 0],
        [0, 0, 1],
        [0, 0.09, 1],
        [0, 0.1, 0],
        [0, 0.3, 0],
        [0, 1, 1],
        [1, 0, 0],
    ]
    rewards = [rubric.reward(values) for values in ranked]
    assert rewards == sorted(rewards)
    assert rewards[1] == rewards[2], "less than a level does not make a step"
    assert len(set(rewards)) == len(ranked) - 1
    assert (rewards[0], rubric.reward([1, 1, 1])) == (0.0, 1.0)
    exact = [rubric.reward([0, level / 10, 0]) * 43 for level in range(11)]
    assert exact == pytest.approx([2 * level for level in range(11)])


def rubric_of(aggregate: str, *components: dict[str, object], **more: object) -> Rubric:
    values = {"name": "x", "description": "d", "aggregate": aggregate, "components": components}
    return Rubric.model_validate(values | more)


@pytest.mark.parametrize("missing", [0, 1])
def test_one_missing_component_leaves_no_reward_at_all(missing: int) -> None:
    """A sum of the present terms would put the missing term at 0 among its siblings."""
    values = measured(1.0, 1.0)
    values[missing] = FAILURE
    reward = combine(Rubric.model_validate(BLEND), values)
    assert reward == Unscored(failure=FAILURE)
