"""Answers from elsewhere: graded cases, and the columns of real data sets."""

import json
from pathlib import Path

import pytest

from assay_reward.verifiers.choice import CHOICE
from assay_reward.verifiers.math import MATH
from assay_shared.answers.formulas.symbolic import Symbolic
from bench.answers import grade_choices, grade_columns
from tests.support.reward.measuring import measure

_ROWS = 20


@pytest.mark.slow
async def test_no_wrong_case_is_right_and_hardly_a_right_one_is_missed(
    data_folder: Path, symbolic: Symbolic
) -> None:
    missed, mistaken, num_right = [], [], 0
    for line in (data_folder / "answers/cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        if case["rubric"] == "math":
            given = {"symbolic": symbolic, "reference": case["reference"]}
            (value,) = await measure(MATH, case["answer"], **given)
        else:
            (value,) = await measure(CHOICE, case["answer"], checks=case["checks"])
        if case["expected"] == 0 and value != 0:
            mistaken.append(case)
        if case["expected"] == 1:
            num_right += 1
            missed += [case] * (value != 1)
    assert mistaken == []
    assert len(missed) <= 0.02 * num_right


@pytest.mark.slow
async def test_real_answers_equal_themselves_and_no_others(data_folder: Path) -> None:
    tables = await grade_columns(data_folder, _ROWS) + grade_choices(data_folder, 5 * _ROWS)
    for table in tables:
        assert table.mistaken == []
        assert len(table.missed) <= 0.01 * table.pairs["own"], table.missed
        assert table.rows["not gradable"] <= 0.02 * table.rows.total()
