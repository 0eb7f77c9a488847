"""Rewards of users: whatever a function or a URL does, it is a value or a failure, and it ends."""

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_reward.group import GroupScore
from assay_reward.instruments import Instruments
from assay_reward.own.instruments import Own
from assay_reward.own.processes import FunctionProcesses
from assay_reward.own.source import Allowed
from assay_reward.pace import Pace
from assay_reward.rubric import Rubric, Rubrics
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import ConfigError
from assay_shared.types import Failure, FailureClass, Reward, Scored, ScoreRequest, Status, Unscored
from tests.conftest import wait_until
from tests.support.fakes import FakeJudge, FakeSandbox, make_task

Score = Callable[..., Any]
MIB = 2**20


@pytest.fixture
async def own() -> AsyncIterator[Own]:
    own = Own(FunctionProcesses())
    yield own
    await own.close()


@pytest.fixture
def score(own: Own, tmp_path: Path) -> Score:
    """Scores answers by the function `score` in a text, as a rubric with these options does."""

    async def run(source: str, *answers: str | tuple[str, ...], **options: object) -> list[Reward]:
        (tmp_path / "mine.py").write_text(source)
        return await by(rubric_in(tmp_path, {"python": "mine.py:score"}, options), own, *answers)

    return run


def rubric_in(
    folder: Path, verifier: dict[str, str], options: dict[str, object], **more: object
) -> Rubric:
    component = {"verifier": verifier, "weight": 1, "options": options} | more
    rubric = {"name": "mine", "description": "d", "components": [component]}
    (folder / "mine.yaml").write_text(yaml.safe_dump(rubric))
    return Rubrics(folder, Allowed(urls=("http://127.0.0.1:8080/score",))).find("mine")


async def by(rubric: Rubric, own: Own, *answers: str | tuple[str, ...]) -> list[Reward]:
    """The rewards of answers to a task with the reference 2, by a rubric."""
    instruments = Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0), own=own)
    task = make_task("two", reference="2", tags={"domain": "sums"})
    request = ScoreRequest(task=task, answers=answers or ("2", "3"))
    return list((await GroupScore(rubric, request, instruments, Pace()).run()).rewards)


def values(rewards: list[Reward]) -> list[float | None]:
    return [reward.value if isinstance(reward, Scored) else None for reward in rewards]


def failures(rewards: list[Reward]) -> list[Failure]:
    return [reward.failure for reward in rewards if isinstance(reward, Unscored)]


RIGHT = """
def score(task, answers):
    return [answer == task["reference"] for answer in answers]
"""


async def test_a_function_gets_task_and_answers_and_gives_values(score: Score) -> None:
    rewards = await score(RIGHT, "2", "3")
    assert values(rewards) == [1.0, 0.0]
    assert [reward.outcome for reward in rewards] == [Status.ACCEPTED, Status.WRONG_ANSWER]


async def test_what_a_function_gets_is_plain_data(score: Score) -> None:
    source = """
def score(task, answers, factor):
    assert task["id"] == "two" and task["prompt"] == "question two"
    assert task["tags"] == {"domain": "sums"} and task["role"] == "train"
    assert answers == ["a", ["first", "last"]], answers
    return [{"value": factor, "detail": "as asked"}, 0.25]
"""
    rewards = await score(source, "a", ("first", "last"), arguments={"factor": 0.5})
    assert values(rewards) == [0.5, 0.25]
    assert rewards[0].components[0].detail == "as asked"


async def test_a_function_may_empty_the_answers_that_it_gets(score: Score) -> None:
    source = (
        "def score(task, answers):\n    n = len(answers)\n    answers.clear()\n    return [1] * n\n"
    )
    assert values(await score(source)) == [1.0, 1.0]


async def test_a_process_with_any_name_is_ended_with_its_call(score: Score) -> None:
    source = (
        "import ctypes, os, time\ndef score(task, answers):\n"
        "    if os.fork() == 0:\n        ctypes.CDLL(None).prctl(15, b'\\xff\\xfe', 0, 0, 0)\n"
        "        time.sleep(60)\n    time.sleep(0.3)\n    return [1, 0]\n"
    )
    for _ in range(2):
        assert values(await score(source)) == [1.0, 0.0]


async def test_values_outside_of_the_bounds_are_failures_unless_these_are_wider(
    score: Score,
) -> None:
    source = "def score(task, answers):\n    return [-1, 3]\n"
    assert values(await score(source)) == [None, None]
    rewards = await score(source, low=-1, high=3, accepted_from=2)
    assert values(rewards) == [-1.0, 3.0]
    assert [reward.outcome for reward in rewards] == [Status.WRONG_ANSWER, Status.ACCEPTED]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("[1.0]", "gave 1 values for 2 answers"),
        ("[]", "gave 0 values for 2 answers"),
        ("[1.0] * 3", "gave more values for 2 answers"),
        ("iter(int, 1)", "gave more values for 2 answers"),
        ("None", "must return a list of values, not a value of the type NoneType"),
        ("0.5", "must return a list of values, not a value of the type float"),
        ("'10'", "must return a list of values, not a value of the type str"),
        ("{0: 1.0, 1: 0.0}", "must return a list of values, not a value of the type dict"),
        ("[float('nan')] * 2", "gave nan, which is not a finite number"),
        ("[float('inf')] * 2", "gave inf, which is not a finite number"),
        ("[10 ** 400] * 2", "gave 'a value of the type int', which is not a value"),
        ("['1.0'] * 2", "gave '1.0', which is not a value"),
        ("[[1.0]] * 2", "gave 'a value of the type list', which is not a value"),
        ("[{'value': 1.0, 'wait': 2}] * 2", "which is not a value"),
        ("[{'detail': 'x'}] * 2", "which is not a value"),
        ("[None] * 2", "gave no value"),
    ],
)
async def test_what_is_no_value_is_a_typed_failure(
    score: Score, returned: str, message: str
) -> None:
    found = failures(await score(f"def score(task, answers):\n    return {returned}\n"))
    assert len(found) == 2
    for failure in found:
        assert message in failure.message
        assert failure.failure_class is FailureClass.INTERNAL
        assert not failure.retryable


async def test_one_value_that_is_none_leaves_the_others(score: Score) -> None:
    source = "def score(task, answers):\n    return [1, None, float('nan'), 0]\n"
    assert values(await score(source, "a", "b", "c", "d")) == [1.0, None, None, 0.0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no good')", "raised ValueError in line 3: no good"),
        ("import sys; sys.exit(0)", "raised SystemExit in line 3: 0"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt in line 3"),
        ("import os; os._exit(0)", "ended its process, with exit code 0"),
        ("import os; os.kill(os.getpid(), 9)", "ended its process, by SIGKILL"),
        ("import os; os.abort()", "ended its process, by SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "ended its process, by SIGSEGV"),
        ("import os; os.kill(os.getppid(), 9)", "the process of score was ended"),
        ("import os; os.closerange(3, 99)", "ended its process, with exit code 1"),
        ("return score(task, answers)", "raised RecursionError"),
        ("import os; os.fork(); os._exit(3)", "ended its process, with exit code 3"),
        ("return unknown", "raised NameError in line 3: name 'unknown' is not defined"),
    ],
)
async def test_a_function_that_breaks_is_a_failure_and_works_the_next_time(
    own: Own, tmp_path: Path, body: str, message: str
) -> None:
    source = (
        f"def score(task, answers):\n    if 'bad' in answers:\n        {body}\n    return [1, 0]\n"
    )
    (tmp_path / "mine.py").write_text(source)
    rubric = rubric_in(tmp_path, {"python": "mine.py:score"}, {})
    for _ in range(2):
        assert [message in one.message for one in failures(await by(rubric, own, "bad", "b"))] == [
            True,
            True,
        ]
        assert values(await by(rubric, own, "a", "b")) == [1.0, 0.0]


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time; time.sleep(100)",
        "import signal; signal.pthread_sigmask(0, range(1, 60)); signal.pause()",
        "import os; os.kill(os.getpid(), 19)",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
        "[print('y' * 9999) for _ in iter(int, 1)]",
    ],
)
async def test_a_function_that_hangs_is_ended_in_time(score: Score, body: str) -> None:
    started = time.monotonic()
    found = failures(await score(f"def score(task, answers):\n    {body}\n", timeout_s=0.3))
    assert [one.message for one in found] == ["mine.py:score took longer than 0.3 s"] * 2
    assert time.monotonic() - started < 8


async def test_each_call_begins_in_the_same_folder(own: Own, tmp_path: Path) -> None:
    source = """
import os
homes = []
def score(task, answers):
    homes.append(os.getcwd())
    os.chdir("/")
    return [{"value": len(homes) / 10, "detail": " ".join(sorted(set(homes)))} for _ in answers]
"""
    (tmp_path / "mine.py").write_text(source)
    rubric = rubric_in(tmp_path, {"python": "mine.py:score"}, {})
    first, second = [(await by(rubric, own, "2"))[0] for _ in range(2)]
    assert isinstance(first, Scored)
    assert isinstance(second, Scored)
    assert (first.value, second.value) == (0.1, 0.2), "one process served both calls"
    assert first.components[0].detail == second.components[0].detail


async def test_a_process_stays_between_calls_and_memory_in_it(own: Own, tmp_path: Path) -> None:
    source = "import os\ncalls = []\ndef score(task, answers):\n    calls.append(os.getpid())\n"
    source += (
        "    return [{'value': len(set(calls)), 'detail': str(len(calls))} for _ in answers]\n"
    )
    (tmp_path / "mine.py").write_text(source)
    rubric = rubric_in(tmp_path, {"python": "mine.py:score"}, {})
    for number in range(1, 4):
        rewards = await by(rubric, own)
        assert values(rewards) == [1.0, 1.0]
        assert isinstance(rewards[0], Scored)
        assert rewards[0].components[0].detail == str(number)


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ("return len(bytearray(2**30))", ("raised MemoryError",)),
        ("return len([bytes(2**20) for _ in range(1000)])", ("raised MemoryError",)),
        (
            "import os, time; [os.fork() for _ in range(3)]; x = b'x' * 2**26; time.sleep(9)",
            ("took more memory than 134217728 bytes",),
        ),
    ],
)
async def test_a_function_that_takes_too_much_memory_is_ended(
    score: Score, body: str, messages: tuple[str, ...]
) -> None:
    source = f"def score(task, answers):\n    {body}\n"
    for failure in failures(await score(source, memory_bytes=128 * MIB, timeout_s=8)):
        assert any(message in failure.message for message in messages), failure.message


FORKS = """
import os, time
def score(task, answers):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(100)
        os._exit(0)
    if os.fork() == 0:
        time.sleep(100)
    child = os.fork()
    if child == 0:
        return [1.0] * len(answers)    # a second reply
    {then}
    return [0.0] * len(answers)
"""


@pytest.mark.parametrize("then", ["pass", "os._exit(1)", "time.sleep(100)"])
async def test_no_fork_outlives_its_call(score: Score, tmp_path: Path, then: str) -> None:
    rewards = await score(FORKS.replace("{then}", then), timeout_s=0.5)
    assert values(rewards) == ([0.0, 0.0] if then == "pass" else [None, None])
    left = [pid for pid in _in_folder(tmp_path) if "worker.py" in _command(pid)]
    assert len(left) <= 2, "the guard, and the function's process"


async def test_nothing_is_left_after_the_service(tmp_path: Path) -> None:
    own = Own(FunctionProcesses())
    (tmp_path / "mine.py").write_text(FORKS.replace("{then}", "pass"))
    await by(rubric_in(tmp_path, {"python": "mine.py:score"}, {}), own)
    await own.close()
    assert _in_folder(tmp_path) == []


async def test_a_call_that_is_given_up_ends_its_process(own: Own, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import time\ndef score(*_):\n    time.sleep(100)\n")
    rubric = rubric_in(tmp_path, {"python": "mine.py:score"}, {"timeout_s": 60})
    call = asyncio.create_task(by(rubric, own))
    await asyncio.to_thread(wait_until, lambda: len(_in_folder(tmp_path)) == 2, "both processes")
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.to_thread(wait_until, lambda: not _in_folder(tmp_path), "their end")


def _in_folder(folder: Path) -> list[int]:
    """Return the processes of a folder; this test alone uses it."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if (path / "cwd").readlink() == folder.resolve():
                    found.append(int(path.name))
            except OSError:
                continue
    return found


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


async def test_prints_go_to_the_log_bounded(score: Score, caplog: pytest.LogCaptureFixture) -> None:
    source = """
import os, sys
def score(task, answers):
    print("héllo"); print("to stderr", file=sys.stderr); os.write(1, b"\\xff raw")
    os.system("echo from a shell")
    print("x" * 100_000)
    return [1, 0]
"""
    with caplog.at_level(logging.INFO, "assay_reward.own.processes"):
        assert values(await score(source)) == [1.0, 0.0]
    (line,) = [record.getMessage() for record in caplog.records]
    for text in ("héllo", "to stderr", "� raw", "from a shell"):
        assert text in line
    assert len(line) < 5000
    assert "bytes more)" in line


async def test_a_function_sees_none_of_the_services_environment(
    score: Score, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    source = """
import os, sys
def score(task, answers):
    assert set(os.environ) == {"PATH", "LANG", "OMP_NUM_THREADS"}, set(os.environ)
    assert sys.stdin.read() == ""
    assert "assay_shared" not in sys.modules
    return [float(len(os.listdir("/proc/self/fd")) < 12), 1]
"""
    rewards = await score(source)
    assert values(rewards) == [1.0, 1.0], failures(rewards)


async def test_a_file_that_changes_is_refused_until_the_restart(
    score: Score, own: Own, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(RIGHT)
    before = rubric_in(tmp_path, {"python": "mine.py:score"}, {})
    (tmp_path / "mine.py").write_text(RIGHT + "# another\n")
    (failure, _) = failures(await by(before, own))
    assert "the file was changed: restart the service" in failure.message
    after = rubric_in(tmp_path, {"python": "mine.py:score"}, {})
    assert values(await by(after, own)) == [1.0, 0.0]
    assert before.scorer != after.scorer


@pytest.mark.slow
async def test_two_groups_use_two_processes_where_the_operator_allows_it(tmp_path: Path) -> None:
    own = Own(FunctionProcesses(2))
    (tmp_path / "mine.py").write_text(
        "import time\ndef score(task, answers):\n    time.sleep(1.5)\n    return [1, 0]\n"
    )
    rubric = rubric_in(tmp_path, {"python": "mine.py:score"}, {})
    await asyncio.gather(by(rubric, own), by(rubric, own))  # starts both
    started = time.monotonic()
    await asyncio.gather(by(rubric, own), by(rubric, own))
    assert time.monotonic() - started < 2.5
    await own.close()


async def test_a_function_may_be_a_gate(own: Own, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RIGHT)
    gate = {"verifier": {"python": "mine.py:score"}, "gate": 1}
    counted = {"verifier": "exact_match", "weight": 1}
    rubric = {"name": "mine", "description": "d", "components": [gate, counted]}
    (tmp_path / "mine.yaml").write_text(json.dumps(rubric))
    rewards = await by(Rubrics(tmp_path).find("mine"), own, "2", "3")
    assert values(rewards) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("verifier", "message"),
    [
        ({"python": "../outside.py:score"}, "outside of the folder for functions"),
        ({"python": "link.py:score"}, "outside of the folder for functions"),
        ({"python": "/etc/passwd.py:score"}, "outside of the folder for functions"),
        ({"python": "missing.py:score"}, "missing.py cannot be read: No such file"),
        ({"python": "mine.py:other"}, "mine.py has no function 'other' at its top level"),
        ({"python": "mine.py:os"}, "mine.py has no function 'os' at its top level"),
        ({"python": "broken.py:score"}, "broken.py is not Python"),
        ({"python": "mine.py"}, "components.0.verifier.python: .*pattern"),
        ({"python": "mine.py:Score"}, "Score is not a component's name"),
        ({"python": "mine.py:score", "url": "http://x"}, "give either python or url"),
        ({}, "give either python or url"),
        ({"url": "http://127.0.0.1:8080/other"}, "does not allow this URL"),
        ({"url": "http://127.0.0.1:8080/scores"}, "does not allow this URL"),
        ({"url": "https://127.0.0.1:8080/score"}, "does not allow this URL"),
        ({"url": "http://127.0.0.1/score"}, "does not allow this URL"),
        ({"url": "http://127.0.0.1:8080@evil.example/score"}, "not a plain http address"),
        ({"url": "http://127.0.0.1:8080/score/../x"}, "not a plain http address"),
        ({"url": "http://127.0.0.1:8080/score/%2e%2e/x"}, "in different ways"),
        ({"url": "file:///etc/passwd"}, "not a plain http address"),
    ],
)
def test_what_the_operator_does_not_allow_stops_the_start(
    tmp_path: Path, verifier: dict[str, str], message: str
) -> None:
    folder = tmp_path / "rubrics"
    folder.mkdir()
    (tmp_path / "outside.py").write_text(RIGHT)
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "mine.py").write_text(RIGHT + "def Score(): ...\nimport os\n")
    (folder / "broken.py").write_text("def score(:")
    with pytest.raises(ConfigError, match=message):
        rubric_in(folder, verifier, {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": float("nan")}, "low: "),
        ({"high": float("inf")}, "high: "),
        ({"low": 1, "high": 0}, "cannot change anything"),
        ({"timeout_s": 0}, "timeout_s: "),
        ({"memory_bytes": 1}, "memory_bytes: "),
        ({"arguments": {"x": [1]}}, "arguments.x"),
        ({"wait": 1}, "unknown key in options of mine.py:score"),
    ],
)
def test_options_that_cannot_be_used_stop_the_start(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    (tmp_path / "mine.py").write_text(RIGHT)
    with pytest.raises(ConfigError, match=message):
        rubric_in(tmp_path, {"python": "mine.py:score"}, options)


def test_a_wider_root_and_an_allowed_url_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "rubrics"
    folder.mkdir()
    (tmp_path / "outside.py").write_text(RIGHT)
    component = {"verifier": {"python": "../outside.py:score"}, "weight": 1}
    rubric = {"name": "mine", "description": "d", "components": [component]}
    (folder / "mine.yaml").write_text(yaml.safe_dump(rubric))
    assert Rubrics(folder, Allowed(root=tmp_path)).find("mine").components[0].digest
    assert rubric_in(folder, {"url": "http://127.0.0.1:8080/score/mine"}, {}).components[0]


def test_a_rubric_without_a_file_may_name_no_function() -> None:
    """For example, a rubric sent by a client."""
    component = {"verifier": {"python": "mine.py:score"}, "weight": 1}
    with pytest.raises(ValueError, match="only a rubric in a file of the operator's"):
        Rubric.model_validate({"name": "x", "description": "d", "components": [component]})
    component["verifier"] = {"url": "http://127.0.0.1:1/"}
    with pytest.raises(ValueError, match="does not allow this URL"):
        Rubric.model_validate({"name": "x", "description": "d", "components": [component]})


KILLED = """
import asyncio, sys
from pathlib import Path
from assay_reward.own.processes import FunctionProcesses
from assay_reward.own.source import Allowed, OwnSource

folder = Path(sys.argv[1])
source = OwnSource(python="mine.py:score")
function = source.find_function(Allowed(folder=folder, root=folder))
question = b'{"task": {}, "answers": [], "arguments": {}}'
asyncio.run(FunctionProcesses().call(function, question, timeout_s=100, memory_bytes=2**30))
"""


def test_nothing_outlives_a_service_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, time\ndef score(*_):\n    os.fork() or os.setsid()\n    time.sleep(100)\n"
    )
    service = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    wait_until(lambda: len(_in_folder(tmp_path)) == 3, "the guard, the function and its fork")
    service.kill()
    service.wait()
    wait_until(lambda: not _in_folder(tmp_path), "their end")
