"""NaN and infinity are not measurements: the types refuse them."""

import math

import pytest
from pydantic import TypeAdapter, ValidationError

from assay_reward.rubric import ComponentConfig
from assay_reward.verifiers.verifier import ValueRange
from assay_shared.errors import InternalFault
from assay_shared.types import Answer, Criterion, RewardComponent, Scored, ScoreRequest, Status
from tests.support.fakes import make_task

NOT_FINITE = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_score_and_its_components_are_finite(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Scored(value=value, outcome=Status.ACCEPTED, components=())
    with pytest.raises(ValidationError, match="finite"):
        RewardComponent(name="a", value=value, weight=1.0)
    with pytest.raises(ValidationError, match="finite"):
        RewardComponent(name="a", value=1.0, weight=value)
    with pytest.raises(ValidationError, match="finite"):
        Criterion(name="a", description="", weight=value)
    text = f'{{"name": "a", "value": {"NaN" if math.isnan(value) else "Infinity"}, "weight": 1}}'
    with pytest.raises(ValidationError, match="finite"):
        TypeAdapter(RewardComponent).validate_json(text)


@pytest.mark.parametrize("clip", [(math.nan, 1.0), (0.0, math.inf), (-1e300, 1.0)])
def test_a_clip_has_finite_ends(clip: tuple[float, float]) -> None:
    with pytest.raises(ValidationError, match="clip"):
        ComponentConfig.model_validate({"verifier": "accepted", "clip": clip, "weight": 1})


def test_a_span_does_not_clip_what_is_not_a_number() -> None:
    with pytest.raises(InternalFault, match="not a number"):
        ValueRange(0.0, 1.0).clip(math.nan)
    assert ValueRange(0.0, 1.0).clip(math.inf) == 1.0


def test_no_answer_has_fewer_than_no_tokens() -> None:
    with pytest.raises(ValidationError, match="num_tokens"):
        ScoreRequest(task=make_task(), answers=(Answer(text="a", num_tokens=-5),))
