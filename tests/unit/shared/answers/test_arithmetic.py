import pytest

from assay_shared.answers.arithmetic import result_of
from assay_shared.answers.extraction import final_answer


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("9 * 2 = 18", "18"),
        (r"9 \times 2 = 18", "18"),
        ("x = 9·2 = 18", "18"),
        ("2 + 3 * 4 - 1 = 13", "13"),
        ("10 - 2 - 3 = 5", "5"),
        ("7 / 2 = 3.5", "3.5"),
        (r"\$1,000 + \$500 = \$1,500", r"\$1,500"),
        ("-3 + 5 = 2", "2"),
        ("9 * 2 = 19", "9 * 2 = 19"),
        ("7 = 8", "7 = 8"),
        ("2x = 18", "2x = 18"),
        ("x = 18", "x = 18"),
        ("1 / 0 = 0", "1 / 0 = 0"),
        ("x = 1, y = 2", "x = 1, y = 2"),
        ("9" * 200 + " = 9", "9" * 200 + " = 9"),
    ],
)
def test_a_sum_that_is_written_out_gives_its_result_if_it_is_right(
    answer: str, result: str
) -> None:
    assert result_of(answer) == result


@pytest.mark.parametrize(
    "text",
    [
        r"So she makes $9 \times 2 = 18$.",
        r"\boxed{9 \times 2 = 18}",
        r"\boxed{x = 9\cdot2 = 18}",
        "The answer is 9 × 2 = 18.",
        "#### 9*2=18",
    ],
)
def test_an_answer_may_write_out_its_sum(text: str) -> None:
    assert final_answer(text) == "18"
