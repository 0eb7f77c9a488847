"""The sandbox over HTTP, by its own client and in SandboxFusion's format."""

import asyncio
from typing import Any

import aiohttp
import pytest

from assay_sandbox.app import create_app
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import SandboxClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import CallCase, ExecutionRequest, Status, TestRequest
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
