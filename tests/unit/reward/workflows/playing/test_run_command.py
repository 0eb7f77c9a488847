"""`assay workflow run`, `tasks` and `trace`, with a model over real HTTP."""

import json
from pathlib import Path

import pytest
import yaml

from assay_shared.cli import main
from assay_shared.types import Group, ScoredGroup
from tests.conftest import Serve
from tests.support.executor_model import ExecutorModel, Skill
from tests.support.fakes import make_rollout, make_task
from tests.support.workflows import INVALID, MISSPELT, ONE_CALL, make_workflow_task
from tests.unit.reward.verifiers.test_workflow import score

PROBLEM = ("--problem", "What is 6 + 7?")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["workflow", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def executor(serve: Serve, tmp_path: Path) -> str:
    """Return the executor file of a model that is always right."""
    url = serve(ExecutorModel(answer_generate=Skill(1.0, 10)).app)
    model = {"name": "scripted", "model": "m", "base_url": f"{url}/v1"}
    (tmp_path / "executor.yaml").write_text(yaml.safe_dump({"models": [model]}))
    return str(tmp_path / "executor.yaml")


def write(folder: Path, source: str) -> str:
    (folder / "flow.txt").write_text(source)
    return str(folder / "flow.txt")


def test_a_workflow_runs_and_leaves_a_page(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, record = tmp_path / "run.html", tmp_path / "run.json"
    flow = write(tmp_path, MISSPELT)
    assert run("run", flow, *PROBLEM, "--executor", executor, "--trace", str(page)) == 0
    shown = capsys.readouterr().out
    assert "repaired: line 1, column 9: answer_generate is now AnswerGenerate" in shown
    assert "answered on scripted: 1 calls, 60 tokens, 0 programs" in shown
    assert shown.endswith("\n13\n")
    assert "What is 6 + 7?" in page.read_text()
    assert run("run", flow, *PROBLEM, "--executor", executor, "--trace", str(record)) == 0
    assert json.loads(record.read_text())["answer"] == "13"


def test_an_invalid_workflow_is_refused_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", write(tmp_path, INVALID), *PROBLEM, "--executor", "nowhere.yaml") == 2
    assert "line 1, column 30" in capsys.readouterr().out


def test_a_failed_executor_ends_without_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = {"name": "m", "model": "m", "base_url": "http://127.0.0.1:9/v1", "attempts": 1}
    (tmp_path / "e.yaml").write_text(yaml.safe_dump({"models": [model]}))
    flow = write(tmp_path, ONE_CALL)
    assert run("run", flow, *PROBLEM, "--executor", str(tmp_path / "e.yaml")) == 1
    assert "failed, without an answer" in capsys.readouterr().out


def test_tasks_become_tasks_of_workflows(tmp_path: Path) -> None:
    given, made = tmp_path / "tasks.jsonl", tmp_path / "made.jsonl"
    given.write_text(make_task(rubric="math").model_dump_json() + "\n")
    assert run("tasks", str(given), "--output", str(made), "--max-turns", "2") == 0
    row = json.loads(made.read_text())
    assert (row["id"], row["environment"]["max_turns"]) == ("workflow/t", 2)
    assert run("tasks", str(given), "--output", str(made)) == 2, "nothing is overwritten"


async def test_the_runs_of_a_training_are_drawn(tmp_path: Path) -> None:
    rewards = await score(ONE_CALL, INVALID)
    group = Group(
        key="k", task=make_workflow_task(), prompt_token_ids=(1,), rollouts=(make_rollout(),) * 2
    )
    scored = ScoredGroup(group=group, rewards=tuple(rewards), scorer="w@1", worker="w")
    rollouts, page = tmp_path / "rollouts.jsonl", tmp_path / "page.html"
    rollouts.write_text('{"step":1,' + scored.model_dump_json()[1:] + "\n{unfinished")
    assert run("trace", str(rollouts), "--output", str(page)) == 0
    text = page.read_text()
    assert "w, answer 0, reward 1.3: answered" in text
    assert text.count("<svg") == 1, "an invalid workflow has no run"
    rollouts.write_text("{}\n")
    assert run("trace", str(rollouts), "--output", str(page)) == 2
