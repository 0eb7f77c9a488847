"""A first run file and .env: what is written, and the errors of common mistakes."""

import csv
import json
import re
import stat
from pathlib import Path

import pytest
import typer
import yaml
from huggingface_hub import constants
from typer.testing import CliRunner, Result

from assay_reward.rubric import Rubrics
from assay_shared.errors import AssayError, ConfigError, Conflict, DatasetError, InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import load_config
from assay_trainer.checks.leaks.check import check_leaks
from assay_trainer.config import RunConfig
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.inert_rules import refuse_inert
from assay_trainer.pipeline.plan_rules import check_settings
from assay_trainer.start.cards import GIB, CardSet
from assay_trainer.start.command import init
from assay_trainer.start.layout import plan_layout
from assay_trainer.start.rubric_kinds import BUILT_IN
from assay_trainer.start.sized_model import size_model
from tests.support.policies import make_policy_folder

ROOT = Path(__file__).parents[4]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
app = typer.Typer()
app.command()(init)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    make_policy_folder(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def data(tmp_path: Path) -> str:
    return table(tmp_path / "sums.csv", ("question", "answer"))


def table(path: Path, columns: tuple[str, str], rows: int = 120) -> str:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows((f"What is {n} + {n * 7}?", str(n * 8)) for n in range(rows))
    return str(path)


def call(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def variables(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)='?(.*?)'?$", file.read_text(), re.MULTILINE))


def test_the_run_file_is_one_that_trains(tmp_path: Path, model: str, data: str) -> None:
    shown = call("first", "--model", model, "--data", data, "--gpus", "none").stdout
    config = load_config(RunConfig, tmp_path / "first" / "run.yaml")
    refuse_inert(config)
    assert check_settings(config) == []
    train = open_dataset(config.data.train, DatasetPurpose.TRAIN, None)
    held_out = open_dataset(config.data.held_out, DatasetPurpose.EVALUATE, None)
    assert config.data.leaks is not None
    check_leaks(train.tasks, held_out.tasks, config.data.leaks, 0).refuse(0.0)
    assert (len(train.tasks), len(held_out.tasks)) == (108, 12), "a tenth is held out"
    assert (train.tasks[0].rubric, train.tasks[0].gold) == (
        "math",
        f"#### {train.tasks[0].reference}",
    )
    assert config.grpo is not None
    assert config.grpo.max_tokens == 64, "half of a context of 128"
    assert "assay train first/run.yaml" in shown
    assert "nothing is wrong with the settings" in shown


def test_the_environment_is_secret_and_replaced_by_force_alone(
    tmp_path: Path, model: str, data: str
) -> None:
    command = ("first", "--model", model, "--data", data, "--gpus", "none")
    call(*command)
    file = tmp_path / "first" / ".env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = variables(file)["ASSAY_TOKEN"]
    assert len(before) == 64
    with pytest.raises(Conflict, match=r"first/.env exists"):
        call(*command)
    assert variables(file)["ASSAY_TOKEN"] == before
    call(*command, "--force")
    assert variables(file)["ASSAY_TOKEN"] != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("number", [0, 1, 2, 8])
@pytest.mark.parametrize("is_run", [False, True])
def test_every_variable_for_compose_is_one_of_its_file(
    tmp_path: Path, data: str, number: int, is_run: bool
) -> None:
    gpus = f"{number}x80" if number else "none"
    run = ("--model", "owner/name-0.1B", "--data", data) if is_run else ()
    call("c", "--compose", "--gpus", gpus, *run)
    found = variables(tmp_path / "c" / ".env")
    assert {"ASSAY_TOKEN", "ASSAY_REDIS_PASSWORD"} <= found.keys()
    services = yaml.safe_load(COMPOSE)["services"]
    for name in found:
        in_environment = any(name in one.get("environment", {}) for one in services.values())
        assert f"${{{name}:" in COMPOSE or in_environment, name
    assert ("ASSAY_TRAINER_GPU" in found) == bool(number)
    if is_run:
        config = load_config(RunConfig, tmp_path / "c" / found["ASSAY_RUN_FILE"])
        assert str(config.policy.folder) == "/var/lib/assay/models/name-0.1B"
        named = {Path(str(one.path)).name for one in (config.data.train, config.data.held_out)}  # type: ignore[union-attr]
        assert named == {path.name for path in Path(found["ASSAY_DATA"]).iterdir()}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (("--data", "gone.csv"), AssayError, "there is no file gone.csv"),
        (("--data", "~nobody-of-this-name/a"), ConfigError, "--data: names a home folder"),
        (("--rubric", "maths"), ConfigError, "there is no rubric 'maths'"),
        (("--prompt-column", "ask"), DatasetError, "There are: question, answer"),
        (("--gpus", "two"), ConfigError, "as 2x80 for two GPUs"),
        (("--model", "owner/nameless"), ConfigError, "has no size in its name"),
        (("--model", "."), ConfigError, "has no config.json"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_written(
    tmp_path: Path, data: str, options: tuple[str, ...], error: type[AssayError], words: str
) -> None:
    given = {"--model": "owner/name-0.1B", "--data": data, "--gpus": "1x80"}
    given |= {options[0]: options[1]}
    with pytest.raises(error, match=re.escape(words)) as refused:
        call("first", *(word for pair in given.items() for word in pair))
    assert refused.value.field is not None
    assert not (tmp_path / "first").exists()


def test_a_file_without_an_answer_column_lists_its_columns(tmp_path: Path, data: str) -> None:
    path = table(tmp_path / "notes.csv", ("question", "notes"))
    with pytest.raises(DatasetError, match=r"no answer column: .* There are: notes") as refused:
        call("first", "--model", "a/b-0.1B", "--data", path, "--gpus", "1x80")
    assert "--answer-column" in (refused.value.hint or "")
    call(
        "first", "--model", "a/b-0.1B", "--data", path, "--gpus", "1x80", "--answer-column", "notes"
    )


@pytest.mark.parametrize("answer", [None, "", "  "])
def test_a_row_without_an_answer_is_named_on_either_side(
    tmp_path: Path, model: str, data: str, answer: str | None
) -> None:
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(30)]
    rows[3]["answer"] = answer  # type: ignore[assignment]
    (tmp_path / "null.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for options in (("null.jsonl",), (data, "--held-out", "null.jsonl")):
        with pytest.raises(DatasetError, match="is empty; leave the row out") as refused:
            call("first", "--model", model, "--gpus", "none", "--data", *options)
        assert "null.jsonl:4" in str(refused.value)
        assert "answer" in str(refused.value)
        assert not (tmp_path / "first").exists()


def test_a_full_folder_and_one_that_cannot_be_written_are_refused(
    tmp_path: Path, model: str, data: str
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    command = ("--model", model, "--data", data, "--gpus", "none")
    with pytest.raises(Conflict, match="exists and is not empty"):
        call("full", *command)
    with pytest.raises(InvalidInput, match=r"sums\.csv is not a folder"):
        call("sums.csv", *command)
    with pytest.raises(InvalidInput, match="cannot be"):
        call("/proc/assay-first", *command)
    assert [path.name for path in full.iterdir()] == ["mine"]


def test_a_gpu_that_is_too_small_says_what_would_fit() -> None:
    seven = size_model("owner/name-7B")
    assert 7.4e9 < seven.num_weights < 7.8e9
    assert seven.known_by.startswith("guessed from 7B in its name")
    with pytest.raises(ConfigError) as refused:
        plan_layout(seven, CardSet(1, 80 * GIB, "test"), 512, False, one_trainer=False)
    told = str(refused.value)
    assert "a GPU of 80 GiB is too small for owner/name-7B" in told
    assert "--lora fits in 26.5 GiB" in told
    assert "all weights fit on 2 GPUs" in told
    with pytest.raises(ConfigError, match="an engine needs 2 GPUs"):
        plan_layout(seven, CardSet(1, 16 * GIB, "test"), 512, None, one_trainer=False)


def test_engine_and_trainer_get_their_gpus_by_the_sizes() -> None:
    small, large = size_model("a/b-1.5B"), size_model("a/b-32B")
    alone = plan_layout(small, CardSet(1, 80 * GIB, ""), 512, None, one_trainer=False)
    assert (alone.engine_gpus, alone.trainer_gpus, alone.trainer.lora) == ((0,), (0,), None)
    assert alone.trainer.needed + alone.utilisation * 80 * GIB < 80 * GIB
    eight = plan_layout(large, CardSet(8, 80 * GIB, ""), 512, None, one_trainer=False)
    assert (eight.engine_gpus, eight.trainer_gpus) == ((0, 1, 2, 3, 4, 5), (6, 7))
    assert (eight.engine_processes, eight.trainer.lora is not None) == (6, True)


def test_own_tasks_keep_their_rubrics(tmp_path: Path, model: str) -> None:
    base = {"dataset": "d", "rubric": "qa", "prompt": "p", "reference": "r"}
    rows = [base | {"id": f"{n}", "role": ("train", "test")[n % 2]} for n in range(20)]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    call("own", "--model", model, "--data", str(path), "--gpus", "none")
    config = load_config(RunConfig, tmp_path / "own" / "run.yaml")
    assert len(open_dataset(config.data.train, DatasetPurpose.TRAIN, None).tasks) == 10
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[::2]))
    with pytest.raises(DatasetError, match="has no task with the role test"):
        call("other", "--model", model, "--data", str(path), "--gpus", "none")


def test_the_variables_of_services_are_settings(tmp_path: Path, data: str) -> None:
    call("first", "--model", "a/b-0.1B", "--data", data, "--gpus", "1x80")
    example = (ROOT / ".env.example").read_text()
    for name in variables(tmp_path / "first" / ".env"):
        assert re.search(rf"^{name}=", example, re.MULTILINE), name
    assert "token" in ServiceSettings.model_fields


def test_the_rubrics_are_those_of_the_reward_service() -> None:
    assert sorted(BUILT_IN) == sorted(rubric.name for rubric in Rubrics(None).all())


def rows_file(name: str, rows: list[dict[str, object]]) -> str:
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return name


def sums(number: int = 30) -> list[dict[str, object]]:
    return [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(number)]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("question", "half \ud800", "half of a surrogate pair"),
        ("answer", "half \udfff", "half of a surrogate pair"),
        ("note", ["deep \ud800"], "half of a surrogate pair"),
        ("question", "q\0?", "U\\+0000"),
        ("answer", "\0", "U\\+0000"),
        ("answer", float("nan"), "is nan: a text or a finite number"),
        ("answer", float("inf"), "is inf: a text or a finite number"),
        ("answer", True, "must be a text or a number, not bool"),
        ("question", {"text": "q"}, "must be a text or a number, not dict"),
    ],
)
@pytest.mark.parametrize("place", [3, 29])
def test_a_value_that_no_task_can_have_is_named_with_its_row(
    tmp_path: Path, model: str, data: str, column: str, value: object, words: str, place: int
) -> None:
    rows = sums()
    rows[place][column] = value
    path = rows_file("odd.jsonl", rows)
    for options in ((path,), (data, "--held-out", path)):
        with pytest.raises(DatasetError, match=words) as refused:
            call("first", "--model", model, "--gpus", "none", "--data", *options)
        assert f"odd.jsonl:{place + 1}" in str(refused.value)
        assert refused.value.field == column
        assert not (tmp_path / "first").exists()


@pytest.mark.parametrize(("prompt", "words"), [("p\0", "U\\+0000"), ("p\ud800", "prompt")])
def test_an_own_task_that_cannot_be_used_is_named_with_its_row(
    tmp_path: Path, model: str, prompt: str, words: str
) -> None:
    base = {"dataset": "d", "rubric": "qa", "prompt": "p", "reference": "r"}
    rows = [base | {"id": f"{n}", "role": ("train", "test")[n % 2]} for n in range(20)]
    rows[7]["prompt"] = prompt
    with pytest.raises(DatasetError, match=words) as refused:
        call("own", "--model", model, "--data", rows_file("t.jsonl", rows), "--gpus", "none")  # type: ignore[arg-type]
    assert "t.jsonl:8" in str(refused.value)
    assert not (tmp_path / "own").exists()


def test_a_path_that_is_not_utf_8_leaves_nothing_behind(tmp_path: Path, model: str) -> None:
    path = table(tmp_path / "sums\udcff.csv", ("question", "answer"))
    with pytest.raises(InvalidInput, match="not UTF-8"):
        call("first", "--model", model, "--data", path, "--gpus", "none")
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"choices": ["a", "b", "c"]}, "choices"),
        ({"Options": "a|b|c"}, "Options"),
        ({"A": "a", "B": "b", "C": "c"}, "A, B, C"),
        ({"option_1": "a", "option_2": "b"}, "option_1, option_2"),
    ],
)
def test_multiple_choice_is_refused_unless_a_rubric_is_named(
    tmp_path: Path, model: str, choices: dict[str, object], named: str
) -> None:
    path = rows_file("mc.jsonl", [row | choices for row in sums()])
    command = ("first", "--model", model, "--data", path, "--gpus", "none")
    with pytest.raises(DatasetError, match=f"lack the choices in {named} ") as refused:
        call(*command)
    assert "assay data import mmlu" in (refused.value.hint or "")
    assert not (tmp_path / "first").exists()
    assert f"not used: {named}; rubric qa" in call(*command, "--rubric", "qa").stdout


def test_columns_that_are_not_used_are_named(model: str) -> None:
    path = rows_file("more.jsonl", [row | {"level": 1, "a": "x"} for row in sums()])
    shown = call("first", "--model", model, "--data", path, "--gpus", "none").stdout
    assert "columns question and answer; not used: level, a; rubric math" in shown


@pytest.mark.parametrize(
    ("number", "different", "words"),
    [
        (30, 1, "has 30 rows, but of the prompts in question, all are equal: 10 different"),
        (30, 9, "has 30 rows, but of the prompts in question, 9 are different"),
        (9, 9, "has 9 rows: 10 different prompts are needed"),
    ],
)
def test_too_few_prompts_to_hold_some_out_are_counted(
    tmp_path: Path, model: str, number: int, different: int, words: str
) -> None:
    rows = [row | {"question": f"q{n % different}"} for n, row in enumerate(sums(number))]
    with pytest.raises(DatasetError, match=words):
        call("f", "--model", model, "--data", rows_file("same.jsonl", rows), "--gpus", "none")


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("my question {x}", "the.answer:v"),
        ('say "so"', "a\\b"),
        ("ask!", "right[0]"),
        ("{{", "}}"),
        ("question, please", "réponse:boxed"),
    ],
)
@pytest.mark.parametrize("is_json", [False, True])
def test_any_name_of_a_column_trains(
    tmp_path: Path, model: str, prompt: str, answer: str, is_json: bool
) -> None:
    path = table(tmp_path / "odd.csv", (prompt, answer))
    if is_json:
        with Path(path).open(newline="") as file:
            path = rows_file("odd.jsonl", list(csv.DictReader(file)))
    named = ("--prompt-column", prompt, "--answer-column", answer)
    call("odd", "--model", model, "--data", path, "--gpus", "none", *named)
    config = load_config(RunConfig, tmp_path / "odd" / "run.yaml")
    tasks = open_dataset(config.data.train, DatasetPurpose.TRAIN, None).tasks
    assert len(tasks) == 108
    assert tasks[0].prompt.startswith("What is ")
    assert tasks[0].gold == f"#### {tasks[0].reference}"


def test_a_part_of_a_column_is_named_by_dots(tmp_path: Path, model: str) -> None:
    rows = [{"question": row["question"], "reward": {"gold": row["answer"]}} for row in sums()]
    path = rows_file("parts.jsonl", rows)
    named = ("--answer-column", "reward.gold")
    shown = call("p", "--model", model, "--data", path, "--gpus", "none", *named).stdout
    assert "columns question and reward.gold; rubric math" in shown
    rows[4]["reward"] = {}
    rows_file("parts.jsonl", rows)
    with pytest.raises(DatasetError, match=r"parts\.jsonl:5"):
        call("q", "--model", model, "--data", path, "--gpus", "none", *named)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_another_separator_is_named(tmp_path: Path, model: str, separator: str) -> None:
    path = tmp_path / "semi.csv"
    path.write_text("".join(f"question{separator}answer\n" for _ in range(30)))
    for named in ((), ("--prompt-column", "question")):
        with pytest.raises(DatasetError, match="seems to be separated by") as refused:
            call("f", "--model", model, "--data", str(path), "--gpus", "none", *named)
        assert repr(separator) in str(refused.value)


@pytest.mark.parametrize("row", [5, 2000])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_file_that_is_not_utf_8_names_line_and_remedy(
    tmp_path: Path, model: str, row: int, ending: str
) -> None:
    path = tmp_path / f"latin.{ending}"
    lines = [f"q{n},{n}" for n in range(3000)]
    if ending == "jsonl":
        lines = [f'{{"question": "q{n}", "answer": "{n}"}}' for n in range(3000)]
    lines[row] = (
        lines[row].replace("q", "ö", 1)
        if ending == "csv"
        else lines[row].replace("q5", "ö5").replace("q2", "ö2")
    )
    head = ["question,answer"] * (ending == "csv")
    path.write_bytes("\n".join([*head, *lines]).encode("latin1"))
    with pytest.raises(DatasetError) as refused:
        call("f", "--model", model, "--data", str(path), "--gpus", "none")
    told = str(refused.value)
    assert "UTF-8" in told or "UTF8" in told
    assert "iconv -f latin1 -t utf-8" in told
    if row == 5 or ending == "jsonl":
        assert f"{path}:{row + 1 + len(head)}" in told


def test_each_part_that_may_take_long_is_told_before_it(model: str, data: str) -> None:
    result = call("f", "--model", model, "--data", data, "--gpus", "none")
    assert result.stderr.splitlines()[:4] == [
        "init: load libraries, and look for GPUs ...",
        f"init: read the sizes of {model} ...",
        f"init: check the rows of {data} ...",
        "init: plan memory and GPUs ...",
    ]


def test_a_column_with_a_sign_of_separators_next_to_another_is_one(
    tmp_path: Path, model: str
) -> None:
    path = table(tmp_path / "bar.csv", ("question", "a|b"))
    call("f", "--model", model, "--data", path, "--gpus", "none", "--answer-column", "a|b")


def test_the_next_commands_work_where_assay_is_not_on_the_path(
    tmp_path: Path, model: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "assay").touch(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    command = ("--model", model, "--data", data, "--gpus", "none")
    monkeypatch.setenv("PATH", "/none")
    assert f"{tmp_path}/bin/assay up" in call("f", *command).stdout
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "; assay up" in call("g", *command).stdout
