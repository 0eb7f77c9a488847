"""Leak checks, shown to find real leaks and nothing else."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from assay_shared import cli
from assay_shared.errors import DatasetError, InternalFault
from assay_shared.settings.run_file import load_config
from assay_shared.types import Role, Task
from assay_trainer.checks.leaks.check import LeakFinding, Leaks, check_leaks
from assay_trainer.checks.leaks.controls import Kind, respaced
from assay_trainer.checks.leaks.findings import LeakPart, Match, Method
from assay_trainer.checks.leaks.near_duplicates import NearDuplicateIndex
from assay_trainer.checks.leaks.overlap import ExactIndex, NgramIndex
from assay_trainer.config import (
    GeneratedSource,
    Gsm8kSource,
    HumanEvalSource,
    LeaksConfig,
    RunConfig,
)
from assay_trainer.data import dataset
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.words import words_of
from tests.support.fakes import make_task

EVERY_METHOD = LeaksConfig(jaccard=0.7)
#: Words that differ from text to text: no two of these share an n-gram.
VOCABULARY = [f"{a}{b}" for a in ("ba", "de", "ki", "lo", "mu", "ne") for b in "bcdfghjklmnp"]


def text(seed: int, num_words: int = 60) -> str:
    return " ".join(random.Random(seed).choices(VOCABULARY, k=num_words))


def tasks(prefix: str, texts: list[str], **changes: object) -> list[Task]:
    return [
        make_task(f"{prefix}-{n}", prompt=one, gold=None, **changes) for n, one in enumerate(texts)
    ]


TRAINING = tasks("train", [text(seed) for seed in range(60)])
HELD_OUT = tasks("test", [text(1000 + seed) for seed in range(30)])
PROMPT = HELD_OUT[7].prompt
WORDS = PROMPT.split()


def finding(leaks: Leaks, method: Method, part: LeakPart = LeakPart.PROMPT) -> LeakFinding:
    (found,) = [one for one in leaks.findings if (one.part, one.method) == (part, method)]
    return found


def found_by(leaks: Leaks, part: LeakPart = LeakPart.PROMPT) -> dict[Method, list[str]]:
    return {
        one.method: [match.held_out_id for match in one.matches]
        for one in leaks.findings
        if one.part is part and one.matches
    }


def with_planted(prompt: str, gold: str | None = None) -> list[Task]:
    return [*TRAINING, make_task("planted", prompt=prompt, gold=gold)]


def check(training: list[Task], held_out: list[Task] = HELD_OUT) -> Leaks:
    return check_leaks(training, held_out, EVERY_METHOD)


def test_words_are_the_same_whatever_their_case_space_and_punctuation() -> None:
    assert words_of('  "How MANY,\n(snake_case) are 1.50?" ') == words_of(
        "how many snake case are 1.50"
    )
    assert words_of("x > 3") != words_of("x < 3")
    assert words_of("12.") == ["12"]
    assert words_of("猫が好き") == list("猫が好き")
    assert words_of("?!") == ["?!"]
    for task in TRAINING[:5]:
        assert words_of(respaced(task.prompt)) == words_of(task.prompt)


ALL = {Method.EXACT, Method.SHARED, Method.COVERED, Method.NEAR}


@pytest.mark.rule("leaks are sought by words, n-grams and near duplicates, with counts and samples")
@pytest.mark.parametrize(
    ("planted", "methods", "has_leaked"),
    [
        (PROMPT, ALL, True),
        (PROMPT.upper().replace(" ", ",\n  "), ALL, True),
        (f"{text(1)} {PROMPT} {text(2)}", {Method.SHARED, Method.COVERED}, True),
        (f"{text(1)} {' '.join(WORDS[9:22])} {text(2)}", {Method.SHARED}, False),
        (" ".join([*WORDS[:14], "other", *WORDS[15:]]), {Method.SHARED, Method.NEAR}, True),
        (" ".join([*WORDS[:14], *WORDS[15:30], *WORDS[31:]]), {Method.SHARED, Method.NEAR}, True),
        (f"{text(1)} {' '.join(WORDS[9:21])} {text(2)}", set(), False),
    ],
    ids=[
        "copy",
        "respaced",
        "inside",
        "one n-gram",
        "a word changed",
        "words left out",
        "12 words",
    ],
)
def test_each_method_finds_what_another_does_not_see(
    planted: str, methods: set[Method], has_leaked: bool
) -> None:
    leaks = check(with_planted(planted))
    assert found_by(leaks) == {method: ["test-7"] for method in methods}
    assert leaks.leaked == (["test-7"] if has_leaked else [])
    assert leaks.leaked_share == has_leaked / 30
    for method in methods:
        (match,) = finding(leaks, method).matches
        assert match.training_id == "planted"
        assert set(match.text.split()) <= {*WORDS, "other"}


def test_a_prompt_in_a_training_answer_is_found() -> None:
    leaks = check(with_planted("Say it.", gold=f"Certainly: {PROMPT}"))
    assert found_by(leaks) == {Method.SHARED: ["test-7"], Method.COVERED: ["test-7"]}


def test_a_gold_answer_is_looked_for_apart_and_only_if_it_is_long() -> None:
    long, short = text(5000, 20), "42"
    held_out = [
        HELD_OUT[0].model_copy(update={"gold": long}),
        HELD_OUT[1].model_copy(update={"gold": short}),
    ]
    training = [
        TRAINING[0].model_copy(update={"gold": long}),
        TRAINING[1].model_copy(update={"gold": short}),
    ]
    leaks = check(training, held_out)
    assert found_by(leaks) == {}
    found = found_by(leaks, LeakPart.GOLD)
    assert found == {method: ["test-0"] for method in ALL}
    assert finding(leaks, Method.EXACT, LeakPart.GOLD).num_compared == 1
    assert leaks.leaked == []


def test_a_short_prompt_counts_as_a_whole() -> None:
    nine = " ".join(WORDS[:9])
    held_out = tasks("test", [nine, "Add them."])
    leaks = check(with_planted(f"{text(1)} {nine} {text(2)}"), held_out)
    assert found_by(leaks)[Method.COVERED] == ["test-0"]
    assert finding(leaks, Method.COVERED).num_compared == 1
    leaks = check(with_planted("add THEM"), held_out)
    assert found_by(leaks) == {Method.EXACT: ["test-1"]}


# Controls


def nothing(self: object, document: object) -> Iterator[Match]:
    yield from ()


@pytest.mark.rule("a leak check that can find nothing fails: leaks are planted for it to find")
@pytest.mark.parametrize(
    ("index", "message"),
    [
        (ExactIndex, "copy of the prompt of test-.* was not found as exact"),
        (NgramIndex, "was not found as shared n-gram"),
        (NearDuplicateIndex, "was not found as near duplicate"),
    ],
)
def test_a_method_that_finds_nothing_whatever_is_there_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, index: type, message: str
) -> None:
    monkeypatch.setattr(index, "matches", nothing)
    with pytest.raises(InternalFault, match=message):
        check(TRAINING)


@pytest.mark.rule("a leak check that can find nothing fails: leaks are planted for it to find")
def test_words_that_hold_on_to_case_fail_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("documents", "controls"):
        monkeypatch.setattr(f"assay_trainer.checks.leaks.{module}.words_of", str.split)
    with pytest.raises(InternalFault, match="other case and spaces of the prompt"):
        check(TRAINING)


@pytest.mark.rule("a leak check that can find nothing fails: leaks are planted for it to find")
def test_every_kind_of_leak_is_planted_and_no_planted_one_is_counted() -> None:
    leaks = check(TRAINING)
    assert found_by(leaks) == {}
    planted = {(one.kind, one.method): one.num_planted for one in leaks.controls}
    assert {kind for kind, _ in planted} == set(Kind)
    assert {method for _, method in planted} == set(Method)
    assert all(num == 20 for num in planted.values())
    compared = [(one.part, one.method) for one in leaks.findings if one.num_compared]
    assert {(one.part, one.method) for one in leaks.controls} == set(compared)


# Templates


def sums(numbers: list[int], prefix: str) -> list[Task]:
    rules = "Read the question with care, then work it out step by step, and write one number."
    return tasks(prefix, [f"{rules} What is {n} plus {n * n} plus {n + 1}?" for n in numbers])


@pytest.mark.parametrize(("num_training", "num_held_out"), [(200, 40), (30, 1), (3, 3)])
def test_what_a_template_has_in_common_is_no_leak(num_training: int, num_held_out: int) -> None:
    held_out = sums(list(range(1000, 1000 + num_held_out)), "test")
    assert check(sums(list(range(num_training)), "train"), held_out).leaked == []


@pytest.mark.rule("leaks are sought by words, n-grams and near duplicates, with counts and samples")
@pytest.mark.parametrize("times", [1, 50])
def test_a_task_of_a_template_is_found_however_often_it_leaked(times: int) -> None:
    held_out = sums(list(range(1000, 1040)), "test")
    inside = [f"{text(n)} {held_out[3].prompt} {text(n + 1)}" for n in range(times)]
    training = sums(list(range(200)), "train") + tasks("inside", inside)
    assert check(training, held_out).leaked == ["test-3"]


def test_tasks_with_one_prompt_are_told_apart_by_their_instances() -> None:
    def maze(prefix: str, walls: Iterable[int]) -> list[Task]:
        prompt = "You stand in a maze of many rooms. Say where to go, one door at a time."
        return [
            make_task(
                f"{prefix}-{n}",
                prompt=prompt,
                environment={"name": "maze", "instance": {"walls": n * 7919}, "max_turns": 2},
            )
            for n in walls
        ]

    assert check(maze("train", range(50)), maze("test", range(50, 60))).leaked == []
    assert check(maze("train", range(51)), maze("test", range(50, 60))).leaked == ["test-50"]
    # One held-out task alone shares its prompt with training tasks of other instances.
    assert check(maze("train", range(50)), maze("test", [60])).leaked == []
    assert check(maze("train", range(50)), maze("test", [49])).leaked == ["test-49"]


# The figures are true


def test_the_reported_similarity_is_the_true_one_and_no_clear_pair_is_missed() -> None:
    rng = random.Random(0)
    training = []
    for task in HELD_OUT:
        words = task.prompt.split()
        for place in rng.sample(range(60), rng.randint(0, 5)):
            words[place] = "changed"
        training.append(make_task(f"of-{task.id}", prompt=" ".join(words), gold=None))
    leaks = check(training)

    def shingles(prompt: str) -> set[tuple[str, ...]]:
        words = prompt.split()
        return set(zip(words, words[1:], words[2:], strict=False))

    true = {}
    for held_out, other in zip(HELD_OUT, training, strict=True):
        a, b = shingles(held_out.prompt), shingles(other.prompt)
        true[held_out.id] = len(a & b) / len(a | b)
    reported = {m.held_out_id: m.value for m in finding(leaks, Method.NEAR).matches}
    assert reported == {task_id: true[task_id] for task_id in reported}
    assert all(value >= 0.7 for value in reported.values())
    assert {task_id for task_id, value in true.items() if value >= 0.8} <= set(reported)
    assert min(true.values()) < 0.7


@pytest.mark.rule("leaks are sought by words, n-grams and near duplicates, with counts and samples")
def test_a_report_has_counts_samples_and_controls(tmp_path: Path) -> None:
    leaks = check(with_planted(PROMPT))
    leaks.write(tmp_path / "leaks.json")
    report = json.loads((tmp_path / "leaks.json").read_text())
    assert (report["num_training"], report["num_held_out"], report["num_leaked"]) == (61, 30, 1)
    assert report["leaked"] == ["test-7"]
    exact = next(row for row in report["findings"] if row["method"] == "exact")
    assert (exact["num_compared"], exact["num_found"], exact["num_pairs"]) == (30, 1, 1)
    (sample,) = exact["samples"]
    assert (sample["held_out_id"], sample["training_id"]) == ("test-7", "planted")
    assert sample["text"] == PROMPT[:240] + "..." * (len(PROMPT) > 240)
    assert sum(row["num_planted"] for row in report["controls"]) > 100


def test_more_leaked_tasks_than_allowed_are_refused_with_the_first() -> None:
    leaks = check(with_planted(PROMPT))
    leaks.refuse(1 / 30)
    with pytest.raises(DatasetError, match="data.leaks.max_share: 1 of 30 .* test-7 first, exact"):
        leaks.refuse(0.0)
    with pytest.raises(DatasetError, match="nothing to compare"):
        check([])


# Shipped and real data


@pytest.mark.slow
def test_the_demos_sets_share_no_task_and_one_that_moves_over_is_found() -> None:
    data = load_config(
        RunConfig, Path(dataset.__file__).parent.parent / "service" / "demo.yaml"
    ).data
    training = open_dataset(data.train, DatasetPurpose.TRAIN, None).tasks
    held_out = open_dataset(data.held_out, DatasetPurpose.EVALUATE, None).tasks
    assert data.leaks is not None
    check_leaks(training, held_out, data.leaks).refuse(data.leaks.max_share)
    moved = held_out[5].model_copy(update={"role": Role.TRAIN})
    assert check_leaks([*training, moved], held_out, data.leaks).leaked == [moved.id]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("num_training", "num_held_out"), [(2, 1), (12, 8), (60, 20), (400, 60)])
def test_small_generated_sets_are_not_refused(
    num_training: int, num_held_out: int, seed: int
) -> None:
    training = GeneratedSource(kind="generated", num_tasks=num_training, seed=seed)
    held_out = GeneratedSource(kind="generated", num_tasks=num_held_out, seed=seed)
    leaks = check_leaks(
        open_dataset(training, DatasetPurpose.TRAIN, None).tasks,
        open_dataset(held_out, DatasetPurpose.EVALUATE, None).tasks,
        LeaksConfig(),
    )
    assert leaks.leaked == []


def test_human_eval_is_not_in_the_generated_tasks_and_is_found_where_it_is(
    data_folder: Path,
) -> None:
    source = GeneratedSource(kind="generated", num_tasks=300, arithmetic=0, lookup=0)
    training = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    held_out = open_dataset(
        HumanEvalSource(kind="humaneval"), DatasetPurpose.EVALUATE, data_folder
    ).tasks
    assert check(training, held_out).leaked == []
    whole = make_task("whole", prompt="Complete it.", gold=held_out[9].prompt)
    leaks = check([*training, whole, held_out[20]], held_out)
    assert leaks.leaked == ["HumanEval/20", "HumanEval/9"]


@pytest.mark.slow
def test_gsm8ks_test_file_is_not_in_its_training_file_and_is_found_where_it_is(
    data_folder: Path,
) -> None:
    source = Gsm8kSource(kind="gsm8k")
    training = open_dataset(source, DatasetPurpose.TRAIN, data_folder).tasks[:1000]
    held_out = open_dataset(source, DatasetPurpose.EVALUATE, data_folder).tasks[:200]
    leaks = check(training, held_out)
    assert leaks.leaked == []
    assert finding(leaks, Method.SHARED).num_found < 5
    moved = held_out[3].model_copy(update={"prompt": respaced(held_out[3].prompt)})
    assert check([*training, moved], held_out).leaked == [held_out[3].id]


# The command


def write(path: Path, written: list[Task]) -> str:
    path.write_text("".join(task.model_dump_json() + "\n" for task in written))
    return str(path)


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            cli.main(["leaks", *arguments])
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out + shown.err

    return run_it


def test_the_command_shows_counts_and_exits_with_1_above_the_share(
    run: Run, tmp_path: Path
) -> None:
    train = write(tmp_path / "train.jsonl", with_planted(PROMPT))
    exam = [task.model_copy(update={"role": Role.TEST}) for task in HELD_OUT]
    held_out = write(tmp_path / "test.jsonl", exam)
    output = tmp_path / "report.json"
    sources = ("--train", train, "--held-out", held_out)
    status, shown = run(*sources, "--output", str(output))
    assert status == 1
    assert "1 of 30 held-out tasks have leaked into 61 training tasks (3.33%)" in shown
    assert "| test-7" in shown
    assert json.loads(output.read_text())["leaked"] == ["test-7"]
    assert run(*sources, "--max-share", "0.04")[0] == 0
    status, shown = run("--train", train)
    assert (status, "give either a run file, or" in shown) == (2, True)
    status, shown = run("--train", held_out, "--held-out", held_out)
    assert (status, "is for test only" in shown) == (2, True)
    status, shown = run(*sources, "--ngram-words", "3")
    assert (status, "ngram_words" in shown) == (2, True)


def test_the_command_reads_a_run_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "policy: {folder: none}\n"
        "data:\n"
        "  train: {kind: generated, num_tasks: 100}\n"
        "  held_out: {kind: generated, num_tasks: 20}\n"
    )
    status, shown = run(str(file))
    assert status == 0
    assert "0 of 20 held-out tasks have leaked into 100 training tasks (0.00%)" in shown
