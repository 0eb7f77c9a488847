"""Every format on its published rows, with their traps."""

import subprocess
import sys
from pathlib import Path

import pytest

from assay_shared.types import AssertCase, Comparison, Role, StdinCase, Task
from tests.support.trainer_imports import read_all

#: PublishedFormat, file, split, tasks, and refused rows by field.
SETS = [
    ("humaneval", "HumanEval.jsonl.gz", "test", 164, {}),
    ("humaneval", "evalplus/humaneval_plus_originfmt.jsonl.gz", "test", 164, {}),
    # Its tests are those of HumanEval alone: the further inputs have no expected values.
    ("humaneval", "evalplus/humaneval_plus.jsonl.gz", "test", 0, {"plus_input": 164}),
    ("mbpp", "evalplus/mbpp_974.jsonl.gz", "train", 374, {}),
    ("mbpp", "evalplus/mbpp_974.jsonl.gz", "validation", 90, {}),
    ("mbpp", "evalplus/mbpp_974.jsonl.gz", "reg", 200, {}),
    ("mbpp", "evalplus/mbpp_974.jsonl.gz", "test", 500, {}),
    ("mbpp", "evalplus/mbpp_sanitized.jsonl.gz", "reg", 96, {}),
    ("code_contests", "code_contests/codecontests_150.jsonl.gz", "train", 150, {}),
    ("code_contests", "code_contests/sandboxfusion_20.jsonl.gz", "valid", 20, {}),
    ("code_contests", "code_contests/sandboxfusion_20_original.jsonl.gz", "valid_big", 20, {}),
    ("gsm8k", "gsm8k/train.jsonl", "train", 7473, {}),
    ("gsm8k", "gsm8k/test.jsonl", "test", 1319, {}),
    ("math", "math/math_train_2000.jsonl.gz", "train", 1998, {"answer": 2}),
    ("aime", "aime_amc/aime_1983_2023.jsonl.gz", "train", 975, {}),
    ("aime", "aime_amc/aime_1983_2023.jsonl.gz", "test", 0, {}),
    ("aime", "aime_amc/aime_2024.jsonl.gz", "test", 30, {}),
    ("aime", "aime_amc/amc_2022_2023_test.jsonl.gz", "amc", 83, {}),
    ("mmlu", "mmlu/test.jsonl.gz", "test", 14038, {"choices": 4}),
    ("mmlu", "mmlu/val.jsonl.gz", "validation", 1530, {"choices": 1}),
    ("mmlu", "mmlu/dev.jsonl.gz", "dev", 285, {}),
    ("hotpotqa", "hotpotqa/dev_distractor_100_hf_schema.jsonl.gz", "dev", 100, {}),
    ("hotpotqa", "hotpotqa/dev_simplified_7405.jsonl.gz", "dev", 7405, {}),
    ("hotpotqa", "hotpotqa/distractor_499.jsonl.gz", "train", 300, {}),
    ("hotpotqa", "hotpotqa/distractor_499.jsonl.gz", "dev", 199, {}),
    ("commonsenseqa", "commonsenseqa/train_rand_split.jsonl.gz", "train", 9698, {"choices": 43}),
    ("commonsenseqa", "commonsenseqa/dev_rand_split.jsonl.gz", "dev", 1215, {"choices": 6}),
    ("arc", "arc/arc_challenge_test.jsonl.gz", "test", 1172, {}),
    ("bbh", "bbh/bbh_all.jsonl.gz", "test", 6507, {"target": 3, "input": 1}),
    ("ifeval", "ifeval/input_data.jsonl.gz", "test", 541, {}),
    ("preference", "preference/hh_rlhf_harmless_test_1000.jsonl.gz", "test", 999, {"rejected": 1}),
    ("preference", "preference/rasbt_dpo_1100.jsonl.gz", "train", 1094, {"rejected": 6}),
    (
        "preference",
        "preference/ultrafeedback_train_1000.jsonl.gz",
        "train",
        994,
        {"rejected": 5, "chosen": 1},
    ),
    ("preference", "rmbench/rmbench_500.jsonl.gz", "test", 1500, {}),
    ("messages", "instruction/tinker_conversations_128.jsonl.gz", "train", 128, {}),
    ("alpaca", "instruction/oasst_octopack_1178.jsonl.gz", "train", 1178, {}),
    ("alpaca", "instruction/rasbt_instruction_1100.jsonl.gz", "train", 1100, {}),
    ("alpaca", "instruction/self_instruct_seed_175.jsonl.gz", "train", 175, {}),
]


@pytest.mark.parametrize(
    ("name", "file", "split", "num", "refused"),
    SETS,
    ids=[f"{name}-{Path(file).stem}-{split}" for name, file, split, *_ in SETS],
)
def test_all_rows_are_tasks_or_refused_by_field(
    data_folder: Path, name: str, file: str, split: str, num: int, refused: dict[str, int]
) -> None:
    found, without = read_all(name, data_folder / file, split)
    assert (len(found), dict(without)) == (num, refused)
    assert len({one.task.id for one in found}) == num
    for one in found:
        assert Task.model_validate_json(one.task.model_dump_json()) == one.task
        assert one.question.strip()


def test_labels_swapped_on_purpose_are_refused_by_their_scores(data_folder: Path) -> None:
    """177 of the 200 swapped pairs have different scores; no other pair is refused for them."""
    path = data_folder / "preference/ultrafeedback_train_1000_flip20.jsonl.gz"
    _, refused = read_all("preference", path, "train")
    assert refused["metadata.score_chosen"] == 177


def test_choices_that_pandas_would_lose_stay_texts(data_folder: Path) -> None:
    found, _ = read_all("mmlu", data_folder / "mmlu/test.jsonl.gz", "test")
    options = {text for one in found for text in one.options}
    assert {"None", "Na", "TRUE", "F"} <= options


def test_numbered_options_get_letters(data_folder: Path) -> None:
    found, _ = read_all("arc", data_folder / "arc/arc_challenge_test.jsonl.gz", "test")
    numbers = {len(str(one.task.prompt).split("\n\n")[1].split("\n")) for one in found}
    assert numbers == {3, 4, 5}
    assert {one.task.reference for one in found} <= set("ABCDE")


def test_answers_as_floats_are_whole_numbers(data_folder: Path) -> None:
    found, _ = read_all("aime", data_folder / "aime_amc/amc_2022_2023_test.jsonl.gz", "amc")
    assert found[0].task.reference == "142"
    assert all("." not in (one.task.reference or "") for one in found)


def test_options_are_chosen_and_words_are_compared(data_folder: Path) -> None:
    found, _ = read_all("bbh", data_folder / "bbh/bbh_all.jsonl.gz", "test")
    by_family = {one.task.tags["family"]: one.task.rubric for one in found}
    assert by_family["date_understanding"] == "choice"
    assert by_family["multistep_arithmetic_two"] == "math"
    assert by_family["word_sorting"] == by_family["navigate"] == "qa.verified"


def test_only_decimal_numbers_have_a_tolerance(data_folder: Path) -> None:
    path = data_folder / "code_contests/codecontests_150.jsonl.gz"
    found, _ = read_all("code_contests", path, "train")
    for one in found:
        for case in one.task.tests:
            assert isinstance(case, StdinCase)
            if case.compare is Comparison.NUMBERS:
                assert "." in case.expected_stdout


@pytest.mark.slow
def test_right_programs_pass_their_own_tests(data_folder: Path) -> None:
    """In plain Python, for every ninth task of MBPP's training split and HumanEval+."""
    found, _ = read_all("mbpp", data_folder / "evalplus/mbpp_974.jsonl.gz", "train")
    plus = data_folder / "evalplus/humaneval_plus_originfmt.jsonl.gz"
    for one in found[::9] + read_all("humaneval", plus, "test")[0][::9]:
        gold = (one.task.gold or "").removeprefix("```python\n").removesuffix("\n```")
        program = one.task.code_prefix + gold
        tests = [case.code for case in one.task.tests if isinstance(case, AssertCase)]
        assert tests
        code = "\n".join([program, *tests])
        command = [sys.executable, "-W", "ignore", "-"]
        ended = subprocess.run(command, input=code.encode(), capture_output=True, timeout=60)
        assert ended.returncode == 0, (one.task.id, ended.stderr[-300:])


def test_roles_are_those_of_the_published_splits(data_folder: Path) -> None:
    for name, file, split, role in [
        ("mbpp", "evalplus/mbpp_974.jsonl.gz", "reg", Role.VALIDATION),
        ("humaneval", "HumanEval.jsonl.gz", "test", Role.TEST),
        ("gsm8k", "gsm8k/train.jsonl", "train", Role.TRAIN),
        ("mmlu", "mmlu/dev.jsonl.gz", "dev", Role.VALIDATION),
    ]:
        found, _ = read_all(name, data_folder / file, split)
        assert {one.task.role for one in found} == {role}
