"""The sandbox for other people's clients: SandboxFusion's judge, open-instruct, verl."""

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from assay_sandbox.app import create_app
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import SandboxFault, Unreachable
from tests.conftest import Serve

EXAMPLES = Path(__file__).parents[2] / "examples"
FENCE = "```"
ADD = "a, b = map(int, input().split())\nprint(a + b)"


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """Return a folder with a data set of two problems."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    rows = [
        {"id": 4, "content": "Add.", "labels": '{"level": "easy"}', "test": json.dumps(SUMS)},
        {"id": "b", "content": "Print 3.", "labels": {}, "test": [prints("3")]},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "code_eval_sums.jsonl").write_text(text)
    return folder


@pytest.fixture
def url(serve: Serve, datasets: Path) -> str:
    settings = SandboxSettings(sandbox_minimum_isolation="fallback", sandbox_datasets=datasets)
    return serve(create_app(settings))


async def post(url: str, body: dict[str, Any]) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        return response.status, await response.json()


async def get(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()


# SandboxFusion's judge


def fenced(code: str, tag: str = "python") -> str:
    return f"So:\n{FENCE}{tag}\n{code}\n{FENCE}\n"


def prints(stdout: str, stdin: str = "") -> dict[str, dict[str, str]]:
    return {"input": {"stdin": stdin}, "output": {"stdout": stdout}}


SUMS = [prints("3", "1 2"), prints("11\n", "5 6\n"), prints("0", "-1 1")]


def submission(completion: str, tests: object = SUMS, **config: Any) -> dict[str, Any]:
    problem = {"id": 7, "content": "", "labels": {}, "test": tests}
    usual = {
        "dataset_type": "CommonOJDataset",
        "language": "python",
        "run_timeout": 5,
        "provided_data": problem,
        "extra": {"run_all_cases": True},
    }
    return {"dataset": "any", "id": 7, "completion": completion, "config": usual | config}


async def submit(url: str, *what: Any, **config: Any) -> dict[str, Any]:
    status, body = await post(f"{url}/submit", submission(*what, **config))
    assert status == 200, body
    return dict(body)


async def test_submit_judges_in_their_words(url: str) -> None:
    body = await submit(url, fenced(ADD))
    assert {name: body[name] for name in body if name != "tests"} == {
        "id": 7,
        "accepted": True,
        "extracted_code": ADD,
        "full_code": None,
        "test_code": None,
        "extracted_type": None,
        "extra": None,
    }
    assert [test["passed"] for test in body["tests"]] == [True] * 3
    first = body["tests"][0]
    assert first["test_info"] == SUMS[0]
    assert first["exec_info"]["status"] == "Success"
    assert first["exec_info"]["run_result"]["stdout"] == "3\n"

    wrong = await submit(url, fenced("print(3)"), json.dumps(SUMS))
    assert not wrong["accepted"]
    assert [test["passed"] for test in wrong["tests"]] == [True, False, False]
    assert wrong["tests"][1]["exec_info"]["status"] == "Success"
    stopped = await submit(url, fenced("print(3)"), extra={})
    assert [test["passed"] for test in stopped["tests"]] == [True, False]


async def test_submit_says_how_a_program_failed(url: str) -> None:
    async def end_of(code: str, **config: Any) -> tuple[str, str, int | None]:
        body = await submit(url, fenced(code), [prints("3")], **config)
        info = body["tests"][0]["exec_info"]
        result = info["run_result"]
        assert not body["accepted"]
        return info["status"], result["status"], result["return_code"]

    assert await end_of("1 / 0") == ("Failed", "Finished", 1)
    assert await end_of("print(3)\nraise SystemExit(3)") == ("Failed", "Finished", 3)
    late = ("Failed", "TimeLimitExceeded", None)
    assert await end_of("while True: pass", run_timeout=0.3) == late


async def test_submit_takes_the_code_that_they_take(url: str) -> None:
    right, wrong = "print(3)", "print(0)"
    for completion, language, code in (
        (fenced(right) + fenced(wrong), "python", right),
        (fenced(wrong, "js") + fenced(right, "Python3"), "python", right),
        (fenced(right, "") + fenced(wrong, "js"), "python", right),
        (f"{FENCE}python\n{right}", "python", right),
        ("echo 3\n\n", "bash", "echo 3\n"),
        (
            "import sys\n\nclass A:\n\n    print(3)\nx",
            "python",
            "import sys\nclass A:\n    print(3)\n",
        ),
    ):
        body = await submit(url, completion, [prints("3")], language=language)
        assert (body["extracted_code"], body["accepted"]) == (code, True)
    body = await submit(url, "The answer is 3.", [prints("3")])
    assert (body["extracted_code"], body["accepted"]) == ("", False)


async def test_submit_compares_as_they_do(url: str) -> None:
    for printed, expected, passed in (
        ("yes", "YES", True),
        ("0.3333333", "0.33333334", True),
        ("1000001", "1000000", True),
        ("1001", "1000", False),
        ("a  b", "a b", False),
    ):
        body = await submit(url, fenced(f"print({printed!r})"), [prints(expected)])
        assert body["accepted"] is passed, printed


async def test_submit_shortens_what_passed(url: str) -> None:
    long = prints("3", "x" * 5000)
    passed = await submit(url, fenced("print(3)"), [long])
    assert len(passed["tests"][0]["test_info"]["input"]["stdin"]) == 999
    whole = await submit(url, fenced("print(3)"), [long], extra={"return_full_case": True})
    assert whole["tests"][0]["test_info"] == long


async def test_submit_names_what_it_does_not_serve(url: str) -> None:
    file = {"input": {"stdin": "", "a.txt": ""}, "output": {"stdout": ""}}
    for config, field in (
        ({"language": "cobol"}, "config.language"),
        ({"language": None}, "config.language"),
        ({"dataset_type": "HumanEvalDataset"}, "config.dataset_type"),
        ({"custom_extract_logic": "1 / 0"}, "config.custom_extract_logic"),
        ({"dataset_type": "AutoEvalDataset"}, "config.provided_data.labels.programming_language"),
        ({"provided_data": None}, "config.provided_data"),
        ({"provided_data": {"test": []}}, "config.provided_data.test"),
        ({"provided_data": {"test": "def f("}}, "config.provided_data.test"),
        ({"provided_data": {"test": [file]}}, "config.provided_data.test.0.input.a.txt"),
        ({"run_timeout": 1000}, "config.run_timeout"),
    ):
        status, body = await post(f"{url}/submit", submission(fenced(ADD), **config))
        assert (status, body["error"]["param"]) == (422, field)


async def test_a_judged_program_is_counted_once(url: str) -> None:
    await submit(url, fenced("print(3)"))
    case = {"kind": "stdin", "stdin": "", "expected_stdout": "4"}
    await post(f"{url}/v1/test", {"code": "print(3)", "cases": [case]})
    await post(f"{url}/v1/execute", {"code": "print(3)"})
    async with httpx.AsyncClient() as client:
        metrics = (await client.get(f"{url}/metrics")).text
    counted = {
        what: dict(
            re.findall(rf'^assay_sandbox_{what}_total{{.*status="(.*)"}} (.*)', metrics, re.M)
        )
        for what in ("programs", "cases")
    }
    assert counted == {
        "programs": {"accepted": "5.0"},
        "cases": {"accepted": "1.0", "wrong_answer": "3.0"},
    }


# SandboxFusion's other routes


async def run_code(url: str, code: str, language: str = "python", **rest: Any) -> dict[str, Any]:
    body = {"code": code, "language": language} | rest
    status, answer = await post(f"{url}/run_code", body)
    assert status == 200, answer
    return dict(answer)


@pytest.fixture
def busy_host() -> Iterator[None]:
    """Keep every core busy four times over, in sessions: Linux shares the cores among sessions."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        for _ in range(4 * len(os.sched_getaffinity(0)))
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


async def sleeps_too_long(url: str) -> bool:
    """Run a program asleep for longer than its timeout, and for less than the wall limit."""
    answer = await run_code(url, "import time; time.sleep(1.5); print(1)", run_timeout=1)
    run = answer["run_result"]
    assert run["return_code"] == (0 if answer["status"] == "Success" else None), answer
    return (answer["status"], run["status"]) == ("Failed", "TimeLimitExceeded")


@pytest.mark.slow
async def test_a_sleep_over_the_timeout_is_over_time(url: str) -> None:
    assert await sleeps_too_long(url)


@pytest.mark.usefixtures("busy_host")
@pytest.mark.slow
async def test_on_a_busy_host_a_sleep_counts_and_waiting_for_a_core_does_not(url: str) -> None:
    assert await sleeps_too_long(url)
    # It computes until the clock says 1.5 s, and gets far less than 1 s of a core in that time.
    code = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    answer = await run_code(url, code, run_timeout=1)
    assert answer["status"] == "Success", answer
    assert answer["run_result"]["execution_time"] > 1.4


async def test_a_compiler_without_time_is_no_compile_error(url: str) -> None:
    code = "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
    code += "static_assert(f(45) > 0);\nint main() {}"
    answer = await run_code(url, code, "cpp", compile_timeout=0.2)
    assert (answer["status"], answer["run_result"]) == ("Failed", None)
    assert answer["compile_result"]["status"] == "TimeLimitExceeded"
    answer = await run_code(url, "int main() {", "cpp")
    assert (answer["status"], answer["run_result"]) == ("Failed", None)
    assert answer["compile_result"]["status"] == "Finished"
    assert answer["compile_result"]["return_code"] == 1


async def test_files_have_the_names_that_programs_have_for_them(url: str) -> None:
    health = await get(f"{url}/health")
    if health["isolation"] == "fallback":
        pytest.skip("programs share /tmp in fallback")
    code = "open('a', 'w').write(open('in/x').read())\n"
    code += "open('/tmp/b', 'w').write('b')\nopen('/mnt/c', 'w').write('c')"
    wanted = ["./a", "/w/a", "/tmp/b", "/mnt/c", "/tmp/none"]
    answer = await run_code(url, code, files={"./in//x": "YQ=="}, fetch_files=wanted)
    assert answer["files"] == {"./a": "YQ==", "/w/a": "YQ==", "/tmp/b": "Yg==", "/mnt/c": "Yw=="}
    for names in (["/etc/passwd"], ["/tmp/../etc/passwd"], ["../x"], ["/tmp/"]):
        body = {"code": "1", "language": "python", "fetch_files": names}
        status, answer = await post(f"{url}/run_code", body)
        assert (status, answer["error"]["param"]) == (422, "fetch_files.0"), names


@pytest.mark.slow
async def test_a_notebook_says_of_each_cell_what_jupyter_does(url: str) -> None:
    cells = [
        "a = 'hello'",
        "a",
        "print(a); import sys; print('warned', file=sys.stderr)",
        "import os; os.system('echo from a child')",
        "def f(): raise ValueError('no')\nf()",
        "1 +",
        "import asyncio; await asyncio.sleep(0.01); a.upper()",
        "while True: pass",
        "display(a); a;",
        "class P:\n    def _repr_html_(self): return '<b>'\nP()",
    ]
    body = {"cells": cells, "cell_timeout": 0.5, "total_timeout": 20}
    status, answer = await post(f"{url}/run_jupyter", body)
    assert (status, answer["status"]) == (200, "Success"), answer
    said = [(c["stdout"], c["stderr"], len(c["display"]), len(c["error"])) for c in answer["cells"]]
    assert said == [
        ("", "", 0, 0),
        ("", "", 1, 0),
        ("hello\n", "warned\n", 0, 0),
        ("from a child\n", "", 1, 0),
        ("", "", 0, 1),
        ("", "", 0, 1),
        ("", "", 1, 0),
        ("", "", 0, 1),
        ("", "", 1, 0),
        ("", "", 1, 0),
    ]
    shown = [cell["display"][0]["text/plain"] for cell in answer["cells"] if cell["display"]]
    assert shown[:4] == ["'hello'", "0", "'HELLO'", "'hello'"]
    assert answer["cells"][-1]["display"][0]["text/html"] == "<b>"
    error = answer["cells"][4]["error"][0]
    assert (error["ename"], error["evalue"]) == ("ValueError", "no")
    assert any("in f" in line for line in error["traceback"])
    assert [answer["cells"][n]["error"][0]["ename"] for n in (5, 7)] == [
        "SyntaxError",
        "CellTimeout",
    ]


@pytest.mark.slow
async def test_a_notebook_that_does_not_end_has_failed(url: str) -> None:
    for cells, timeout in ((["import os; os._exit(0)"], 20), (["while True: pass"], 0.5)):
        body = {"cells": cells, "total_timeout": timeout}
        status, answer = await post(f"{url}/run_jupyter", body)
        assert (status, answer["status"], answer["cells"]) == (200, "Failed", [])
        assert answer["message"]
    fetched = {"cells": ["open('x', 'w').write('1')"], "fetch_files": ["x"]}
    _, answer = await post(f"{url}/run_jupyter", fetched)
    assert answer["files"] == {"x": "MQ=="}
    status, answer = await post(f"{url}/run_jupyter", {"cells": [1]})
    assert (status, answer["error"]["param"]) == (422, "cells.0")


async def test_stored_problems_are_listed_asked_and_judged(url: str) -> None:
    assert await get(f"{url}/list_datasets") == ["sums"]
    body: dict[str, Any] = {"dataset": "sums", "config": {"language": "python"}}
    assert await post(f"{url}/list_ids", body) == (200, [4, "b"])
    _, prompts = await post(f"{url}/get_prompts", body | {"offset": 1})
    assert [prompt["id"] for prompt in prompts] == ["b"]
    _, prompt = await post(f"{url}/get_prompt_by_id", body | {"id": 4})
    assert (prompt["id"], prompt["labels"]) == (4, {"level": "easy"})
    assert prompt["prompt"].startswith("Add.\n\n")
    submitted = body | {"id": 4, "completion": fenced(ADD)}
    assert (await post(f"{url}/submit", submitted))[1]["accepted"]
    assert not (await post(f"{url}/submit", submitted | {"id": "b"}))[1]["accepted"]
    assert (await post(f"{url}/submit", submitted | {"id": 5}))[0] == 404
    for name in ("../sums", "none", ""):
        status, answer = await post(f"{url}/list_ids", body | {"dataset": name})
        assert (status, answer["error"]["param"]) == (422, "config.provided_data")
    assert await post(f"{url}/get_metrics", body | {"results": []}) == (200, {})
    assert await post(f"{url}/get_metrics_function", body) == (200, {"function": None})


async def test_a_callers_python_chooses_the_program_in_a_slot(url: str) -> None:
    logic = (
        "found = extract_fenced_code(completion)[-1].code\n"
        "submit_code_blocks([CodeBlock(priority=40, code=found, language='python')])"
    )
    completion = fenced("print(0)") + fenced("print(3)")
    body = await submit(url, completion, [prints("3")], custom_extract_logic=logic)
    assert (body["extracted_code"], body["accepted"]) == ("print(3)", True)
    lower = logic.replace("40", "5")
    body = await submit(url, completion, [prints("3")], custom_extract_logic=lower)
    assert body["extracted_code"] == "print(0)"
    # It sees none of the service.
    logic = "import os\nassert not [n for n in os.environ if n.startswith('ASSAY')]"
    await submit(url, completion, [prints("3")], custom_extract_logic=logic)


async def test_a_completion_is_tested_by_code(url: str) -> None:
    def problem(test: str, **labels: str) -> dict[str, Any]:
        asset = json.dumps({"x.txt": "NQ=="})
        labels = {"programming_language": "python"} | labels
        return {
            "id": 1,
            "content": "Double x.",
            "labels": json.dumps(labels),
            "test": json.dumps({"code": test, "asset": asset}),
        }

    right = problem("assert double(int(open('x.txt').read())) == 10")
    completion = fenced("def double(x): return 2 * x\nif __name__ == '__main__': 1 / 0")
    config: dict[str, Any] = {"dataset_type": "AutoEvalDataset", "provided_data": right}
    for changed, accepted in (
        ({}, True),
        ({"provided_data": problem("assert double(2) == 5")}, False),
        ({"extra": {"append_flag": True}}, True),
        (
            {"provided_data": problem("import os; os._exit(0)"), "extra": {"append_flag": True}},
            False,
        ),
    ):
        body = await submit(url, completion, **(config | changed))
        assert body["accepted"] is accepted, changed
        assert body["extracted_code"].startswith("def double")
    asked = {"dataset": "", "id": 1, "config": config}
    assert (await post(f"{url}/get_prompt_by_id", asked))[1]["prompt"] == "Double x."
    body = submission(
        completion, **(config | {"provided_data": problem("", execution_language="x")})
    )
    status, answer = await post(f"{url}/submit", body)
    assert status == 422
    assert answer["error"]["param"] == "config.provided_data.labels.execution_language"


# open-instruct


async def passes(url: str, path: str, program: str, tests: object) -> list[int]:
    body = {"program": program, "tests": tests, "max_execution_time": 0.5}
    status, answer = await post(url + path, body)
    assert status == 200, answer
    assert [one >= 0 for one in answer["runtimes"]] == [bool(one) for one in answer["results"]]
    results: list[int] = answer["results"]
    return results


@pytest.mark.slow
async def test_open_instruct_asserts_are_1_or_0(url: str) -> None:
    tests = ["assert add(1, 2) == 3", "assert add(-1, 1) == 0", "assert add(0, 0) == 1"]
    add = "def add(a, b): return a + b"
    for program, expected in (
        (add, [1, 1, 0]),
        (f"from __future__ import annotations\n{add}", [1, 1, 0]),
        (f"{add}\nif __name__ == '__main__':\n    print(input())", [1, 1, 0]),
        ("def add(a, b):\n    while a < 0: pass\n    return a + b", [1, 0, 0]),
        ("def add(a, b):", [0, 0, 0]),
        ("raise SystemExit(0)", [0, 0, 0]),
    ):
        assert await passes(url, "/test_program", program, tests) == expected, program
    assert await passes(url, "/test_program", add, json.dumps(tests)) == [1, 1, 0]


async def test_open_instruct_stdio_is_1_or_0(url: str) -> None:
    tests = [{"input": "5 3", "output": "8"}, {"input": "10 -2", "output": "8.0\n"}]
    for program, expected in (
        ("print(sum(map(int, sys.stdin.readline().split())))", [1, 1]),
        (f"{ADD}\nsys.exit(1)", [1, 1]),
        ("print(8 if input() == '5 3' else 'x')", [1, 0]),
        ("1 / 0", [0, 0]),
        ("def f(n): return n and 1 + f(n - 1)\nf(20000)\nprint(8)", [1, 1]),
    ):
        assert await passes(url, "/test_program_stdio", program, tests) == expected, program


async def test_open_instruct_is_told_which_field_is_wrong(url: str) -> None:
    for path, body, field in (
        ("/test_program", {"program": "", "tests": []}, "tests"),
        ("/test_program", {"program": "", "tests": "gASVBQ=="}, "tests"),
        ("/test_program", {"program": "", "tests": ["x"] * 1001}, "tests"),
        ("/test_program_stdio", {"program": "", "tests": [{"input": "1"}]}, "tests.0.output"),
        ("/test_program", {"program": "", "tests": ["x"], "max_execution_time": 0}, None),
    ):
        status, answer = await post(url + path, body)
        assert (status, answer["error"]["param"]) == (422, field or "max_execution_time")


@pytest.mark.slow
async def test_a_full_sandbox_is_no_verdict_in_any_format(serve: Serve) -> None:
    settings = SandboxSettings(
        sandbox_minimum_isolation="fallback", sandbox_slots=1, sandbox_max_waiting=0
    )
    url = serve(create_app(settings))
    sleep = "import time; time.sleep(0.2)"
    stdio = {"program": sleep, "tests": [{"input": "", "output": ""}]}
    for path, body, status in (
        ("/submit", submission(fenced(sleep), [prints("")]), 504),
        ("/test_program_stdio", stdio, 503),
        ("/test_program", {"program": sleep, "tests": ["assert f()"]}, 503),
    ):
        answers = await asyncio.gather(*(post(url + path, body) for _ in range(5)))
        assert sorted({status for status, _ in answers}) == [200, status]
        refused = [answer["error"] for got, answer in answers if got != 200]
        assert all(error["retryable"] for error in refused)


# verl


@pytest.fixture
def verl_reward() -> ModuleType:
    """The example, loaded from its path as verl does."""
    spec = importlib.util.spec_from_file_location("loaded", EXAMPLES / "verl_reward.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STDIN = {"inputs": ["1 2", "5 6\n"], "outputs": ["3", "11\n"]}
CALLS = {"inputs": ["[1, 2]\n3", "[]\n0"], "outputs": ["[4, 5]", "[]"], "fn_name": "f"}
METHOD = "class Solution:\n    def f(self, xs: List[int], k: int): return [x + k for x in xs]"
ASSERTS = {"inputs": ["", ""], "outputs": [None, None], "assert_case": ["assert f(1)", "f(0)"]}


@pytest.mark.slow
def test_verl_scores_are_shares_of_tests(url: str, verl_reward: ModuleType) -> None:
    for code, truth, score in (
        (ADD, STDIN, 1.0),
        ("print(3)", STDIN, 0.5),
        ("1 / 0", STDIN, 0.0),
        ("def f(xs, k): return [x + k for x in xs]", CALLS, 1.0),
        (METHOD, CALLS, 1.0),
        ("def f(xs, k): return [4, 5]", CALLS, 0.5),
        ("def g(): pass", CALLS, 0.0),
        ("def f(x): return 'abc'", {"inputs": ["1"], "outputs": ["abc"], "fn_name": "f"}, 1.0),
        ("def f(x): return 1 // x", ASSERTS, 0.5),
    ):
        for ground_truth in (truth, json.dumps(truth)):
            found = verl_reward.compute_score("any", fenced(code), ground_truth, {}, url=url)
            assert found == {"score": score, "acc": float(score == 1)}, code
    half = verl_reward.compute_score("any", fenced("print(3)"), STDIN, url=url, continuous=False)
    assert half == {"score": 0.0, "acc": 0.0}


def test_verl_asks_once_for_an_answer(url: str, verl_reward: ModuleType) -> None:
    verl_reward.compute_score("any", fenced(ADD), STDIN, url=url)
    metrics = httpx.get(f"{url}/metrics").text
    asked = re.findall(
        r'^assay_http_requests_total{.*route="/v1/test".*} (.*)', metrics, re.MULTILINE
    )
    assert asked == ["1.0"]


def test_verl_takes_the_last_python_block(verl_reward: ModuleType) -> None:
    for text, code in (
        (fenced("a") + fenced("b") + fenced("c", "js"), "b\n"),
        (fenced("a", ""), "a\n"),
        (f"{FENCE}python\na", "a"),
        ("nothing", None),
    ):
        assert verl_reward.extract_code(text) == code
    assert verl_reward.compute_score("any", "nothing", STDIN) == {"score": 0.0, "acc": 0.0}


@pytest.mark.slow
def test_verl_gets_no_score_for_a_failure_of_ours(serve: Serve, verl_reward: ModuleType) -> None:
    with pytest.raises(Unreachable):
        verl_reward.compute_score(
            "any", fenced(ADD), STDIN, url="http://127.0.0.1:9", give_up_after_s=0.2
        )
    with pytest.raises(ValueError, match="shorter"):
        verl_reward.compute_score("any", fenced(ADD), {"inputs": ["1", "2"], "outputs": ["3"]})

    app = FastAPI()
    answers: list[dict[str, Any]] = []

    @app.post("/v1/test")
    async def test(body: dict[str, Any]) -> JSONResponse:
        answers.append(body)
        if len(answers) < 3:
            return JSONResponse({}, status_code=429)
        status = "accepted" if len(answers) == 3 else "sandbox_error"
        report = {"status": status, "cases": [{"status": status}]}
        return JSONResponse(report | {"grading": "outside", "isolation": "none"})

    url = serve(app)
    assert verl_reward.compute_score("any", fenced(ADD), STDIN, url=url)["score"] == 1.0
    assert len(answers) == 3
    with pytest.raises(SandboxFault):
        verl_reward.compute_score("any", fenced(ADD), STDIN, url=url)
