"""The sandbox over HTTP, by its own client and in SandboxFusion's format."""

import asyncio
import base64
import io
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import assay_sandbox
from assay_sandbox.app import create_app
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import SandboxClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import (
    CallCase,
    Comparison,
    ExecutionRequest,
    Status,
    StdinCase,
    TestRequest,
)
from tests.conftest import Serve


def make_settings(**settings: object) -> SandboxSettings:
    return SandboxSettings.model_validate({"sandbox_minimum_isolation": "fallback"} | settings)


@pytest.fixture
def url(serve: Serve) -> str:
    return serve(create_app(make_settings()))


async def test_the_client_runs_and_tests_programs(url: str) -> None:
    async with SandboxClient(url) as client:
        result = await client.execute(ExecutionRequest(code="print('hi')"))
        assert result.stdout == "hi\n"
        health = await client.health()
        assert health["isolation"] == result.isolation
        case = CallCase(function="f", args=(2,), expected=4)
        report = await client.test(TestRequest(code="def f(x): return x * x", cases=(case,)))
        assert report.status is Status.ACCEPTED
        with pytest.raises(InvalidInput, match="language: 'cobol' is not known"):
            await client.execute(ExecutionRequest(code="", language="cobol"))


async def test_more_than_the_host_grants_is_refused_at_the_start(serve: Serve) -> None:
    settings = make_settings(sandbox_isolation="fallback", sandbox_minimum_isolation="pooled")
    app = create_app(settings)
    with pytest.raises(ConfigError, match="ASSAY_SANDBOX_ISOLATION: fallback is below"):
        async with app.router.lifespan_context(app):
            pass


# SandboxFusion's format


async def run_code(url: str, **body: object) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/run_code", json={"language": "python"} | body) as response,
    ):
        return response.status, await response.json()


@pytest.mark.slow
async def test_run_code_answers_in_their_words(url: str) -> None:
    status, body = await run_code(url, code="print(input())", stdin="hé", compile_timeout=10)
    assert status == 200
    assert body["status"] == "Success"
    result = body["run_result"]
    assert (result["status"], result["return_code"], result["stdout"]) == ("Finished", 0, "hé\n")
    _, body = await run_code(url, code="import sys; sys.exit(3)")
    assert (body["status"], body["run_result"]["return_code"]) == ("Failed", 3)
    _, body = await run_code(url, code="def f(:")
    assert body["status"] == "Failed"
    assert "SyntaxError" in body["run_result"]["stderr"]
    _, body = await run_code(url, code="while True: pass", run_timeout=1)
    assert (body["status"], body["run_result"]["status"]) == ("Failed", "TimeLimitExceeded")
    _, body = await run_code(url, code="x = bytearray(2**29)", memory_limit_MB=128)
    assert body["status"] == "Failed"


async def test_run_code_names_what_it_does_not_serve(url: str) -> None:
    for changes, field in (
        ({"language": "cobol"}, "language"),
        ({"files": {"../a": "eA=="}}, "files.../a.[key]"),
        ({"files": {"a": "no base64"}}, "files.a"),
        ({"fetch_files": ["/etc/passwd"]}, "fetch_files.0"),
    ):
        status, body = await run_code(url, code="", **changes)
        assert (status, body["error"]["param"]) == (422, field)


@pytest.mark.slow
async def test_run_code_carries_files_and_compiles(url: str) -> None:
    code = "open('out', 'wb').write(open('a/in', 'rb').read() * 2)"
    files = {"a/in": "/wA=", "unused": None}
    _, body = await run_code(url, code=code, files=files, fetch_files=["out", "none"])
    assert (body["status"], body["files"]) == ("Success", {"out": "/wD/AA=="})
    async with SandboxClient(url) as client:
        if "cpp17" not in await client.languages():
            pytest.skip("this host has no g++")
    _, body = await run_code(url, code="int main() { return 3; }", language="cpp")
    assert body["compile_result"]["return_code"] == 0
    assert (body["status"], body["run_result"]["return_code"]) == ("Failed", 3)
    _, body = await run_code(url, code="int main( {", language="cpp")
    assert (body["status"], body["compile_result"]["return_code"]) == ("Failed", 1)
    assert body["run_result"] is None
    assert "error" in body["compile_result"]["stderr"]


@pytest.mark.slow
async def test_run_code_is_asked_again_when_there_is_no_room(serve: Serve) -> None:
    """verl's client retries 504 alone; anything else it would score 0."""
    url = serve(create_app(make_settings(sandbox_slots=1, sandbox_max_waiting=0)))
    sleep = "import time; time.sleep(0.5)"
    answers = await asyncio.gather(*(run_code(url, code=sleep) for _ in range(6)))
    assert sorted({status for status, _ in answers}) == [200, 504]
    for status, body in answers:
        assert body["status"] == ("Success" if status == 200 else "SandboxError")


@pytest.mark.slow
async def test_overload_is_a_refusal_and_never_a_verdict(serve: Serve) -> None:
    url = serve(create_app(make_settings(sandbox_max_waiting=20)))
    async with SandboxClient(url, retry=NO_RETRY) as client:
        request = ExecutionRequest(code="print(sum(range(1000)))")
        work = (client.execute(request) for _ in range(400))
        results = await asyncio.gather(*work, return_exceptions=True)
    statuses = {r.status for r in results if not isinstance(r, BaseException)}
    refused = {type(r).__name__ for r in results if isinstance(r, BaseException)}
    assert statuses == {Status.ACCEPTED}
    assert refused == {"Saturated"}


@pytest.mark.slow
async def test_work_ends_with_the_connection_of_who_asked(serve: Serve) -> None:
    url = serve(create_app(make_settings(sandbox_slots=1)))
    sleep = {"code": "import time; time.sleep(30)", "limits": {"wall_time_s": 60}}
    async with aiohttp.ClientSession() as session:
        gone = [
            asyncio.create_task(session.post(f"{url}/v1/execute", json=sleep)) for _ in range(5)
        ]
        await asyncio.sleep(0.5)
        for one in gone:
            one.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
    started = time.monotonic()
    async with SandboxClient(url, retry=NO_RETRY) as client:
        assert (await client.execute(ExecutionRequest(code="print(1)"))).stdout == "1\n"
        assert time.monotonic() - started < 5.0
        assert 'status="499"' in await fetch_text(f"{url}/metrics")


async def fetch_text(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.text()


@pytest.mark.slow
async def test_clients_are_known_by_their_tokens(serve: Serve) -> None:
    tokens = {"alice": "a-secret", "bob": "b-secret"}
    url = serve(create_app(make_settings(client_tokens=tokens, token="own")))
    for token, status in (
        ("a-secret", 200),
        ("b-secret", 200),
        ("own", 200),
        ("x", 401),
        ("", 401),
    ):
        async with aiohttp.ClientSession() as session:
            headers = {"authorization": f"Bearer {token}"}
            async with session.get(f"{url}/v1/languages", headers=headers) as response:
                assert response.status == status


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/execute", "[" * 200_000, 422),
        ("/v1/execute", '{"code": "", "x": ' + "[" * 200_000 + "]" * 200_000 + "}", 422),
        ("/v1/execute", json.dumps({"code": "", "files": {str(i): "" for i in range(65)}}), 422),
        ("/v1/execute", json.dumps({"code": "", "limits": {"memory_bytes": 2**50}}), 422),
        ("/v1/execute", json.dumps({"code": "", "files": {"a": "x" * 101}}), 422),
        ("/v1/execute", json.dumps({"code": "x" * 3_000_000}), 413),
        (
            "/v1/test",
            json.dumps({"code": "", "cases": [{"kind": "assert", "code": "assert 1"}] * 1001}),
            422,
        ),
        (
            "/v1/test",
            '{"code": "", "cases": [{"kind": "call", "function": "f", "expected": 1, "args": ['
            + "[" * 5000 + "]" * 5000 + "]}]}",
            422,
        ),
    ],
)  # fmt: skip
@pytest.mark.slow
async def test_too_much_is_refused_before_work_is_done(
    serve: Serve, path: str, body: str, status: int
) -> None:
    url = serve(create_app(make_settings(sandbox_body_limit_bytes=2_000_000)))
    headers = {"content-type": "application/json"}
    async with aiohttp.ClientSession() as session:
        async with session.post(
            url + path, data=io.BytesIO(body.encode()), headers=headers
        ) as response:
            assert response.status == status, await response.text()
        good = {
            "code": "def f(): return 1",
            "cases": [{"kind": "assert", "code": "assert f() == 1"}],
        }
        async with session.post(f"{url}/v1/test", json=good) as response:
            assert (await response.json())["status"] == "accepted"


async def test_what_is_no_text_comes_back_as_bytes(url: str) -> None:
    async with SandboxClient(url) as client:
        code = "import sys\nsys.stdout.buffer.write(b'\\xff\\x00\\n')"
        result = await client.execute(ExecutionRequest(code=code))
        assert (result.stdout, result.raw_stdout) == ("\ufffd\0\n", b"\xff\0\n")
        result = await client.execute(ExecutionRequest(code="print('\\0é')"))
        assert (result.stdout, result.raw_stdout) == ("\0é\n", None)
        # Text that looks the same as what replaces what is none is still another one.
        case = StdinCase(stdin="", expected_stdout="\ufffd\0", compare=Comparison.EXACT)
        report = await client.test(TestRequest(code=code, cases=(case,)))
        assert report.status is Status.WRONG_ANSWER


@pytest.mark.slow
async def test_fifty_megabytes_of_input_are_read_or_left(url: str) -> None:
    stdin = "x" * 50_000_000
    async with SandboxClient(url) as client:
        for code, said in (("print(len(input()))", "50000000\n"), ("print(1)", "1\n")):
            result = await client.execute(ExecutionRequest(code=code, stdin=stdin))
            assert (result.status, result.stdout) == (Status.ACCEPTED, said)


async def test_a_session_over_http(url: str) -> None:
    async with aiohttp.ClientSession(url + "/v1/") as http:
        async with http.post("sessions", json={"files": {"a.txt": "aGk="}}) as response:
            assert response.status == 201
            session = await response.json()
        path = f"sessions/{session['id']}"
        async with http.post(
            f"{path}/execute", json={"code": "x = open('a.txt').read()"}
        ) as answer:
            assert (await answer.json())["status"] == "accepted"
        async with http.put(f"{path}/files/sub/b.bin", data=b"\xff\0") as answer:
            assert answer.status == 204
        code = "open('c.bin', 'wb').write(open('sub/b.bin', 'rb').read())\nx"
        async with http.post(f"{path}/execute", json={"code": code}) as answer:
            assert (await answer.json())["result"] == "'hi'"
        async with http.get(f"{path}/files/c.bin") as answer:
            assert await answer.read() == b"\xff\0"
        async with http.get(f"{path}/files/none") as answer:
            assert answer.status == 404
        async with http.get(path) as answer:
            assert 0 < (await answer.json())["ends_in_s"] <= 600
        async with http.delete(path) as answer:
            assert answer.status == 204
        async with http.post(f"{path}/execute", json={"code": "1"}) as answer:
            assert answer.status == 404


# Mistakes of a client


def base64_of(num_bytes: int) -> str:
    return base64.b64encode(bytes(num_bytes)).decode()


def as_json(body: object) -> io.BytesIO:
    return io.BytesIO(json.dumps(body).encode())


JSON = {"content-type": "application/json"}
ROOM_BYTES = 2**20


@pytest.fixture(scope="module")
def small_url(serve_for_all: Serve) -> str:
    """Return a sandbox with little room for programs' files."""
    return serve_for_all(create_app(make_settings(sandbox_writable_bytes=ROOM_BYTES)))


LONG_NAMES = ["/".join(["[" * 250] * 7 + [f"{n:03}" + "[" * 247]) for n in range(64)]


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("files", {"files": {"a": "", "a/b": ""}}),
        ("files", {"files": {"d/e/f": "", "d": "", "x": ""}}),
        ("files", {"files": {"main.sh/x": ""}, "language": "bash"}),
        ("files", {"files": dict.fromkeys("abc", base64_of(ROOM_BYTES // 2))}),
        ("files", {"files": {str(n): "" for n in range(65)}}),
        ("files", {"files": {str(n): 1 for n in range(50_000)}}),
        ("files." + "a" * 194 + "...", {"files": {"a" * 256: ""}}),
        ("fetch_files", {"fetch_files": LONG_NAMES}),
        ("fetch_files.0", {"fetch_files": ["é" * 128]}),
        ("fetch_files.0", {"fetch_files": ["a\0b"]}),
        ("fetch_files.0", {"fetch_files": ["\ud800"]}),
        ("files.\ufffd\ufffd\ufffd.[key]", {"files": {"\ud800": ""}}),
        ("x" * 200 + "...", {"x" * 100_000: 1}),
    ],
)
@pytest.mark.parametrize("path", ["/v1/execute", "/run_code"])
async def test_a_clients_mistake_is_a_4xx_with_the_fields_name(
    small_url: str, path: str, field: str, changes: dict[str, Any]
) -> None:
    if path == "/run_code" and field.startswith("x"):
        pytest.skip("SandboxFusion ignores fields that it does not know")
    body = {"code": "print(1)", "language": "python"} | changes
    async with (
        aiohttp.ClientSession() as session,
        session.post(small_url + path, data=as_json(body), headers=JSON) as response,
    ):
        text = await response.text()
    assert response.status == 422, text[:500]
    assert json.loads(text)["error"]["param"] == field
    assert len(text) < 2000


async def test_files_that_just_fit_are_put_in_place(small_url: str) -> None:
    half_bytes = ROOM_BYTES // 2 - 2**16
    files = dict.fromkeys("ab", base64_of(half_bytes))
    code = "import os; print(os.path.getsize('a'), os.path.getsize('b'))"
    sent = as_json({"code": code, "files": files})
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{small_url}/v1/execute", data=sent, headers=JSON) as response,
    ):
        assert (await response.json())["stdout"] == f"{half_bytes} {half_bytes}\n"


async def test_a_sessions_files_that_cannot_be_are_4xx(small_url: str) -> None:
    url = small_url
    async with aiohttp.ClientSession() as client:
        async with client.post(f"{url}/v1/sessions", json={}) as response:
            session = f"{url}/v1/sessions/{(await response.json())['id']}"
        for name, size, status in (
            ("big", ROOM_BYTES + 1, 413),
            ("a" * 300, 1, 422),
            ("a%00b", 1, 422),
            ("a", 1, 204),
            ("a/b", 1, 422),
        ):
            async with client.put(
                f"{session}/files/{name}", data=io.BytesIO(bytes(size))
            ) as response:
                assert response.status == status, await response.text()
        async with client.post(
            f"{url}/v1/sessions", json={"files": {"a": "", "a/b": ""}}
        ) as response:
            assert response.status == 422
        await client.delete(session)


# What a reply tells about the host

FAILING = (
    "1 / 0",
    "import nix",
    "open('nix')",
    "x = = 1",
    "\0",
    "def f(): f()\nf()",
    "import traceback; traceback.print_stack()",
    "import inspect; print(inspect.stack())",
    "import faulthandler, os; faulthandler.enable(); os.abort()",
    "import sys; print([m for n, m in sys.modules.items() if n.startswith('assay')])",
    "import os; print(os.environ)",
)
FAILING_IN = {
    "bash": "cat nix; nix; env",
    "cpp17": "#include <nix>\nint main() {}",
    "c": "int main() { x; }",
    "java": 'class Main { int x = ""; }',
    "javascript": "require('nix')",
}


@pytest.mark.slow
async def test_no_reply_has_a_path_of_the_host(small_url: str) -> None:
    url = small_url
    repository = str(Path(assay_sandbox.__file__).parents[3])
    secret = (repository, "assay-slots-", "assay-unlocked-", "site-packages")
    bodies: list[tuple[str, dict[str, Any]]] = []
    for code in FAILING:
        case = {"kind": "call", "function": "f", "args": [], "expected": 1}
        inner = f"def f():\n    exec({code!r})"
        bodies.append(("/v1/execute", {"code": code}))
        bodies.append(("/run_code", {"code": code, "language": "python"}))
        bodies += [("/v1/test", {"code": text, "cases": [case]}) for text in (code, inner)]
    bodies += [("/v1/execute", {"code": t, "language": name}) for name, t in FAILING_IN.items()]
    async with aiohttp.ClientSession() as client:
        async with client.get(f"{url}/health") as response:
            health = await response.json()
        assert health["python"].startswith("Python 3")
        in_host = health["isolation"] == "fallback"  # there the work folder is a host folder
        for path, body in bodies:
            async with client.post(url + path, json=body) as response:
                text = await response.text()
            assert response.status in {200, 422}, text
            shown = [part for part in secret if part in text]
            assert shown == ["assay-slots-"] * (in_host and bool(shown)), f"{body}: {text}"
