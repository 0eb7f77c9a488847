"""Search and comparison over real HTTP: the truth of each operator is known."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay_reward.workflows.command import app
from assay_reward.workflows.comparison.play_log import PlayedLine, kept_lines
from assay_reward.workflows.playing.tasks import write_tasks
from assay_shared.errors import RoleError
from assay_shared.types import Role, Task
from tests.conftest import Serve, running_sandbox
from tests.support.known_executor import (
    SKILLS,
    KnownExecutor,
    KnownProblem,
    KnownSkill,
    known_service,
)

PROGRAM = "found = Programmer(problem=problem)\nreturn found.output\n"


def problems(number: int, seed: int) -> list[KnownProblem]:
    rng = random.Random(seed)
    found = []
    for _ in range(number):
        a, b = rng.sample(range(100, 999), 2)
        wrong = tuple(str(a * b + off) for off in (1, 10, -7, 100))
        found.append(KnownProblem(f"What is {a} times {b}?", str(a * b), wrong))
    return found


def task_of(one: KnownProblem, role: Role) -> Task:
    return Task(
        id=one.text, dataset="products", role=role, prompt=one.text, rubric="math",
        reference=one.right,
    )  # fmt: skip


VALIDATION, TEST = problems(8, 1), problems(24, 2)


@pytest.fixture(scope="module")
def executor(
    serve_for_all: Serve, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KnownExecutor]:
    """A model, and a reward service that ASSAY_REWARD_URL names, with a real sandbox."""
    with running_sandbox(ASSAY_SANDBOX_MINIMUM_ISOLATION="fallback") as sandbox:
        folder = tmp_path_factory.mktemp("executor")
        yield known_service([*VALIDATION, *TEST], folder, serve_for_all, sandbox.url)


@pytest.fixture(autouse=True)
def service(executor: KnownExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_REWARD_URL", executor.service)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_tasks([task_of(one, Role.VALIDATION) for one in VALIDATION], folder / "validation.jsonl")
    write_tasks([task_of(one, Role.TEST) for one in TEST], folder / "test.jsonl")
    (folder / "learned.txt").write_text(PROGRAM)
    return folder


def assay(*words: object) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.output


def test_the_search_finds_the_better_workflow_and_resumes_to_the_same(
    executor: KnownExecutor, files: Path, tmp_path: Path
) -> None:
    """Programmer is right in 90% of the cases, and every other start in 50%."""
    given = ("--rounds", 5, "--samples", 2, "--confirm", 2, "--seed", 3)
    assay("search", files / "validation.jsonl", "--output", tmp_path / "whole", *given)
    best = (tmp_path / "whole" / "best.txt").read_text()
    assert "Programmer" in best
    log = (tmp_path / "whole" / "search.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "search.jsonl").write_text("".join(log[:4]) + log[4][:40])
    assay("search", files / "validation.jsonl", "--output", tmp_path / "cut", *given)
    again = (tmp_path / "cut" / "search.jsonl").read_text().splitlines()
    sources = [[json.loads(line).get("source") for line in lines] for lines in (log, again)]
    assert sources[0] == sources[1]
    assert (tmp_path / "cut" / "best.txt").read_text() == best
    with pytest.raises(Exception, match="begun with other seed: 3, now 4"):
        assay("search", files / "validation.jsonl", "--output", tmp_path / "cut", *given[:-1], 4)


def test_the_search_ends_at_its_limit_and_refuses_tests(
    executor: KnownExecutor, files: Path, tmp_path: Path
) -> None:
    limits = ("--samples", 1, "--confirm", 1, "--max-tokens", 100)
    said = assay("search", files / "validation.jsonl", "--output", tmp_path / "few", *limits)
    assert "the limit of 100 tokens is reached" in said
    with pytest.raises(Exception, match="has the role test"):
        assay("search", files / "test.jsonl", "--output", tmp_path / "no")
    renamed = [
        task_of(one, Role.VALIDATION).model_copy(
            update={"id": f"other {number}", "prompt": f" {one.text.upper()}\n"}
        )
        for number, one in enumerate(VALIDATION[-1:])
    ]
    write_tasks(renamed, tmp_path / "renamed.jsonl")
    best = tmp_path / "few" / "best.txt"
    for tasks in (files / "validation.jsonl", tmp_path / "renamed.jsonl"):
        for given in (
            ("--searched", f"search={tmp_path / 'few'}"),
            ("--learned", f"search={best}"),
        ):
            with pytest.raises(RoleError, match="has seen task"):
                assay("compare", tasks, "--output", tmp_path / "c", *given)


def test_a_comparison_says_what_is_true_and_resumes(
    executor: KnownExecutor, files: Path, tmp_path: Path
) -> None:
    output = tmp_path / "compared"
    given = (
        "compare", files / "test.jsonl", "--output", output, "--votes", 4, "--traces", 1,
        "--learned", f"program={files / 'learned.txt'}",
    )  # fmt: skip
    said = assay(*given)
    assert "PASS: program beats self-consistency at equal tokens" in said
    report = json.loads((output / "report.json").read_text())
    rows = {row["name"]: row for row in report["rows"]}
    for name, truth in (("direct", 0.5), ("program", 0.9), ("programmer", 0.9)):
        accuracy = rows[name]["accuracy"]
        assert accuracy["low"] <= truth <= accuracy["high"], (name, accuracy)
    assert rows["direct"]["costs"]["tokens"] == 140
    assert rows["program"]["costs"]["tokens"] == pytest.approx(190)
    assert rows["program"]["costs"]["money"] == pytest.approx((40 + 2 * 150) / 1e6)
    assert rows["program"]["against"]["num_answers"] == pytest.approx(190 / 140)
    assert rows["ensemble"]["costs"]["calls"] > 5
    assert "<svg" in (output / "report.html").read_text()
    asked = executor.asked.total()
    lines = (output / "samples.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 1 + len(TEST)
    (output / "samples.jsonl").write_text("".join(lines[:-1]))
    assert assay(*given) == said
    assert 0 <= executor.asked.total() - asked <= 14, "one task was played again at most"


def test_lost_samples_are_left_out_and_counted(
    executor: KnownExecutor, files: Path, tmp_path: Path
) -> None:
    """With 13% of the replies empty and one attempt, nothing is zero and nothing is claimed."""
    executor.skills = {name: one._replace(empty=0.13) for name, one in SKILLS.items()}
    try:
        given = ("--votes", 2, "--max-tasks", 16, "--learned", f"program={files / 'learned.txt'}")
        said = assay("compare", files / "test.jsonl", "--output", tmp_path, "--samples", 2, *given)
    finally:
        executor.skills = SKILLS
    played = [
        sample
        for line in list(kept_lines(tmp_path / "samples.jsonl"))[1:]
        for sample in PlayedLine.model_validate(line).samples
    ]
    lost = [one for one in played if not one.is_scored]
    assert 0 < len(lost) < len(played) / 2
    assert all(one.failure == "executor" and one.reward is None for one in lost)
    rows = {row["name"]: row for row in json.loads((tmp_path / "report.json").read_text())["rows"]}
    assert sum(sum(row["lost"].values()) for row in rows.values()) == len(lost)
    program = rows["program"]
    assert program["accuracy"]["value"] > 0.6
    if program["num_scored"] < 0.9 * program["num_samples"]:
        assert "INCONCLUSIVE: program" in said


def test_a_model_proposes_the_next_workflow(
    executor: KnownExecutor, files: Path, tmp_path: Path
) -> None:
    proposal = KnownProblem("Improve the workflow below", f"```\n{PROGRAM}```", ("no workflow",))
    executor.problems.append(proposal)
    executor.skills = dict(SKILLS) | {"custom": KnownSkill(1.0, 60)}
    try:
        assay(
            "search", files / "validation.jsonl", "--output", tmp_path, "--rounds", 1,
            "--samples", 1, "--confirm", 1, "--proposals", 1, "--max-tasks", 4,
        )  # fmt: skip
    finally:
        executor.skills = SKILLS
        executor.problems.remove(proposal)
    nodes = [line for line in kept_lines(tmp_path / "search.jsonl") if "edit" in line]
    assert (nodes[1]["edit"], nodes[1]["source"]) == ("proposed", PROGRAM)
    assert float(str(nodes[1]["spent_tokens"])) > 4 * 190 + 100
