"""Greedy answers against the source's: strict, unless weights or types differ."""

import pytest

from assay_trainer.handoff.checks.check import CheckVerdict
from assay_trainer.handoff.checks.engines import same_as_source
from assay_trainer.handoff.engines.answers import ForeignAnswer
from tests.unit.trainer.handoff.checks.test_texts import account


def answer(token: int, gap: float) -> ForeignAnswer:
    top = (((1, -0.5), (2, -0.5 - gap)),)
    return ForeignAnswer(
        prompt_ids=(9,), token_ids=(token,), logprobs=(-0.5,), top=top, ended=False
    )


@pytest.mark.parametrize(
    ("dtypes", "is_rounded", "gap", "verdict"),
    [
        (("bfloat16", "bfloat16"), False, 0.1, CheckVerdict.FAIL),
        (("bfloat16", "bfloat16"), True, 0.1, CheckVerdict.PASS),
        (("float32", "float32"), True, 0.1, CheckVerdict.FAIL),
        (("bfloat16", "float32"), True, 0.4, CheckVerdict.PASS),
        (("bfloat16", "float32"), True, 0.6, CheckVerdict.FAIL),
    ],
)
def test_ties_count_where_weights_or_types_differ(
    dtypes: tuple[str, str], is_rounded: bool, gap: float, verdict: CheckVerdict
) -> None:
    source = account(dtype=dtypes[0], answers=(answer(1, gap),))
    found = account(dtype=dtypes[1], answers=(answer(2, gap),))
    told = same_as_source(source, found, is_rounded=is_rounded, compared_with="the source")
    assert told.verdict is verdict
