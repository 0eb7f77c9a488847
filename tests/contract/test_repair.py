"""`assay evaluate --protocol repair` on real parts: reward and sandbox, and a scripted model."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from rich.console import Console

from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import (
    AssertCase,
    CallCase,
    PromptFormat,
    Role,
    Status,
    StdinCase,
    Task,
    TestCase,
)
from assay_trainer.evaluate.job import EvaluationJob, run_job
from assay_trainer.evaluate.options import protocol_of
from assay_trainer.evaluation.records.folder import StoredEvaluation, read_evaluation
from tests.conftest import Serve
from tests.support.fakes import make_task
from tests.support.upstream import Upstream, says

SECRET = 424_242
VISIBLE: tuple[TestCase, ...] = (CallCase(function="f", args=(1,), expected=2),)
HIDDEN: tuple[TestCase, ...] = (
    CallCase(function="f", args=(SECRET,), expected=2 * SECRET),
    CallCase(function="f", args=(SECRET + 1,), expected=2 * SECRET + 2),
)
RIGHT = "def f(x):\n    return 2 * x"
WRONG = "def f(x):\n    return x"
NO_NAME = "def f(x):\n    return double(x)"


@pytest.fixture(scope="module")
def services(serve_for_all: Serve) -> ServiceSettings:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SANDBOX_MINIMUM_ISOLATION", "fallback")
        sandbox = serve_for_all(create_sandbox(SandboxSettings()))
    return ServiceSettings(
        reward_url=serve_for_all(create_reward(RewardSettings(sandbox_url=sandbox)))
    )


def program_task(name: str = "double", **fields: Any) -> Task:
    given = {"tests": (*VISIBLE, *HIDDEN), "rubric": "code.dense", "role": Role.TEST}
    return make_task(name, **(given | fields))


def repaired(
    services: ServiceSettings,
    folder: Path,
    url: str,
    tasks: list[Task],
    **protocol: JsonValue,
) -> StoredEvaluation:
    """Return the evaluation of a served model by rounds of repair."""
    folder.mkdir(exist_ok=True)
    path = folder / "tasks.jsonl"
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in tasks))
    job = EvaluationJob(
        sets=[f"code={path}"],
        output=folder / "out",
        protocol=protocol_of(None, {"kind": "repair", "visible_tests": 1, **protocol}),
        server=f"{url}/v1",
        model="scripted",
    )
    assert run_job(job, services, Console(quiet=True))
    return read_evaluation(folder / "out")


def by_rounds(*texts: str) -> Callable[[dict[str, Any]], dict[str, object]]:
    """Return a model that says the text of its round, and the last one for ever."""

    def reply(asked: dict[str, Any]) -> dict[str, object]:
        said = [one for one in asked["messages"] if one["role"] == "assistant"]
        return says(texts[min(len(said), len(texts) - 1)])

    return reply


def feedbacks(stored: StoredEvaluation) -> list[str]:
    return [said for one in stored.sets["code"].samples for _, said in one.turns]


def test_a_model_that_reads_its_feedback_recovers(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    def reply(asked: dict[str, Any]) -> dict[str, object]:
        said = asked["messages"][-1]["content"]
        return says(RIGHT if "NameError" in said else NO_NAME)

    found = repaired(services, tmp_path, serve(Upstream(reply).app), [program_task()])

    (sample,) = found.sets["code"].samples
    assert [one.outcome for one in sample.rounds] == [Status.RUNTIME_ERROR, Status.ACCEPTED]
    assert sample.outcome is Status.ACCEPTED
    assert [one.pass_ratio for one in sample.rounds] == [0.0, 1.0]
    # The control has as many tokens as the second round (20), and no feedback.
    assert [one.outcome for one in sample.control] == [Status.RUNTIME_ERROR]
    metrics = json.loads((tmp_path / "out" / "code" / "metrics.json").read_text())["overall"]
    repair = metrics["repair"]
    assert metrics["accepted_at_1"]["value"] == 0.0
    assert repair["accepted_at_multi"]["value"] == repair["recovery_rate"]["value"] == 1.0
    assert repair["best_of_n"]["value"] == 0.0
    assert repair["over_best_of_n"]["value"] == 1.0
    assert repair["transitions"] == {"runtime_error": {"none": 1}}
    assert repair["repair_reward"] == pytest.approx(1 + 0.2 - 0.05)
    assert (repair["tokens"], repair["control_tokens"]) == (40, 40)
    report = (tmp_path / "out" / "report.md").read_text()
    assert "repair over best of n" in report


def test_rounds_end_at_their_number_and_a_repeated_program_is_counted(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    found = repaired(services, tmp_path, serve(Upstream(by_rounds(WRONG)).app), [program_task()])

    (sample,) = found.sets["code"].samples
    assert [one.outcome for one in sample.rounds] == [Status.WRONG_ANSWER] * 3
    assert sample.num_tokens == sum(one.num_tokens for one in sample.rounds) == 60
    assert [one.num_tokens for one in sample.control] == [20, 20]
    repair = json.loads((tmp_path / "out" / "code" / "metrics.json").read_text())["overall"][
        "repair"
    ]
    assert repair["num_repeated"] == 2
    assert repair["mean_rounds"] == 3
    assert repair["over_best_of_n"]["value"] == 0
    assert repair["verdict"] == "INCONCLUSIVE"


def test_a_first_program_that_is_accepted_has_one_round_and_no_control(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    found = repaired(services, tmp_path, serve(Upstream(by_rounds(RIGHT)).app), [program_task()])

    (sample,) = found.sets["code"].samples
    assert [one.outcome for one in sample.rounds] == [Status.ACCEPTED]
    assert sample.control == ()


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    raise ValueError(f'the input is {x}')",
        "def f(x):\n    print('the input is', x)\n    return x",
        "import sys\ndef f(x):\n    sys.stderr.write(f'the input is {x}')\n    return x",
        "SEEN = []\ndef f(x):\n    SEEN.append(x)\n    raise ValueError(str(SEEN))",
        "def f(x):\n    open('seen', 'a').write(str(x))\n    raise ValueError(open('seen').read())",
        "def f(x):\n    open('/tmp/a', 'a').write(str(x))\n    assert 0, open('/tmp/a').read()",
        "import atexit\ndef f(x):\n    atexit.register(print, 'input', x)\n    return x",
        "def f(x):\n    raise type(f'Input{x}', (Exception,), {})()",
        "def f(x):\n    return f'the input is {x}'",
        "def f(x):\n    import sys\n    sys.exit(f'the input is {x}')",
    ],
)
def test_no_program_gets_a_hidden_test_into_its_feedback(
    services: ServiceSettings, serve: Serve, tmp_path: Path, program: str
) -> None:
    task = program_task()
    found = repaired(services, tmp_path, serve(Upstream(by_rounds(program)).app), [task])

    told = " ".join(feedbacks(found))
    assert re.search(r"not right: \w+\. Tests passed: \w+", told)
    assert not re.search(r"\b3\b", told)  # the number of tests
    for secret in (SECRET, SECRET + 1, 2 * SECRET, 2 * SECRET + 2):
        assert str(secret) not in told


def test_tests_that_stand_in_the_prompt_are_shown_unless_told_otherwise(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    shown, hidden = "assert f(1) == 2", f"assert f({SECRET}) == {2 * SECRET}"
    tests = (AssertCase(code=shown), AssertCase(code=hidden))
    task = program_task(prompt=f"Write f.\n{shown}", tests=tests)
    url = serve(Upstream(by_rounds(WRONG)).app)

    told = feedbacks(repaired(services, tmp_path / "a", url, [task], visible_tests=None))
    assert "f(1), expected 2: wrong_answer\nreturned 1" in told[0]
    assert str(SECRET) not in " ".join(told)

    told = feedbacks(repaired(services, tmp_path / "b", url, [task], visible_tests=0))
    assert "f(1)" not in told[0]


def test_hidden_standard_input_does_not_reach_the_feedback(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    tests = (
        StdinCase(stdin="1\n", expected_stdout="2\n"),
        StdinCase(stdin=f"{SECRET}\n", expected_stdout=f"{2 * SECRET}\n"),
    )
    program = (
        "import sys, os\nseen = sys.stdin.read()\nopen('/tmp/seen', 'a').write(seen)\n"
        "sys.stderr.write(open('/tmp/seen').read())\nprint(seen)\nraise SystemExit(seen)"
    )
    url = serve(Upstream(by_rounds(program)).app)
    found = repaired(services, tmp_path, url, [program_task(tests=tests)])

    told = " ".join(feedbacks(found))
    assert "stdin '1" in told  # the visible one is told
    assert str(SECRET) not in told


def test_tasks_without_rounds_are_refused_by_name(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    url = serve(Upstream(says("x")).app)
    for task, said in (
        (program_task(tests=(), reference="4", rubric="math"), "no task of code has tests"),
        (program_task(prompt_format=PromptFormat.RAW), "has a raw prompt"),
    ):
        with pytest.raises(InvalidInput, match=said):
            repaired(services, tmp_path / said[:9].replace(" ", "_"), url, [task])


def test_a_started_evaluation_keeps_its_whole_samples(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    tasks = [program_task(f"double{number}") for number in range(3)]
    upstream = Upstream(by_rounds(WRONG, RIGHT))
    url = serve(upstream.app)
    repaired(services, tmp_path, url, tasks)
    samples = tmp_path / "out" / "code" / "samples.jsonl"
    lines = samples.read_text().splitlines(keepends=True)
    # As a kill would leave it: two whole samples, and a part of the third.
    samples.write_text("".join(lines[:2]) + lines[2][:40])
    num_asked = len(upstream.requests)

    found = repaired(services, tmp_path, url, tasks)

    assert len(found.sets["code"].samples) == 3
    assert len(upstream.requests) == num_asked + 3  # two rounds and one answer of the control
    assert len(samples.read_text().splitlines()) == 3


def test_a_task_without_tests_has_one_round(
    services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    tasks = [
        program_task(),
        make_task("sum", role=Role.TEST, tests=(), reference="4", rubric="math"),
    ]
    found = repaired(services, tmp_path, serve(Upstream(by_rounds("5")).app), tasks)

    rounds = {one.task_id: len(one.rounds) for one in found.sets["code"].samples}
    assert rounds == {"double": 3, "sum": 1}
