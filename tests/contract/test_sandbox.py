"""The sandbox over HTTP, by its own client and in SandboxFusion's format."""

import asyncio
import io
import json
import time
from typing import Any

import aiohttp
import pytest

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


async def test_run_code_is_asked_again_when_there_is_no_room(serve: Serve) -> None:
    """verl's client retries 504 alone; anything else it would score 0."""
    url = serve(create_app(make_settings(sandbox_slots=1, sandbox_max_waiting=0)))
    sleep = "import time; time.sleep(0.5)"
    answers = await asyncio.gather(*(run_code(url, code=sleep) for _ in range(6)))
    assert sorted({status for status, _ in answers}) == [200, 504]
    for status, body in answers:
        assert body["status"] == ("Success" if status == 200 else "SandboxError")


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
