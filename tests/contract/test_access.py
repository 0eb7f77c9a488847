"""Access: each route of each service, with keys of a single scope and of no scope."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute, Route

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.service.auth import FOR_ANY_KEY, action_of, scope_of
from assay_shared.service.middleware import OPEN_PATHS
from assay_shared.settings.api_keys import Scope
from assay_shared.telemetry.logs import JsonFormatter
from assay_trainer.service.app import create_app as create_trainer
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve

DOCS = Path(__file__).parents[2] / "docs"
OWN = "the-services-own-token"
#: A key for each scope alone, one without any, and one that may ask twice.
KEYS: dict[str, object] = {
    **{scope.name: {"token": f"key-of-{scope.name}", "scopes": [scope]} for scope in Scope},
    "nobody": {"token": "key-of-nobody", "scopes": []},
    "hasty": {"token": "key-of-hasty", "requests_per_minute": 12},
    "all": "key-of-all",
}
LIMIT_BYTES = 20_000


class Service(NamedTuple):
    """Return an app with all keys in its settings."""

    name: str
    app: FastAPI

    @property
    def routes(self) -> list[tuple[str, str, BaseRoute]]:
        return [
            (method, route.path, route)
            for route in self.app.routes
            if isinstance(route, Route)
            for method in sorted((route.methods or set()) - {"HEAD"})
        ]


@pytest.fixture
def services(tmp_path: Path) -> list[Service]:
    common = {
        "token": OWN,
        "client_tokens": KEYS,
        "body_limit_bytes": LIMIT_BYTES,
        "runs": tmp_path,
        "sandbox_body_limit_bytes": LIMIT_BYTES,
        "sandbox_slots": 1,
        "sandbox_minimum_isolation": "fallback",
    }
    return [
        Service("inference", create_inference(InferenceSettings.model_validate(common))),
        Service("sandbox", create_sandbox(SandboxSettings.model_validate(common))),
        Service("judge", create_judge(JudgeSettings.model_validate(common))),
        Service("reward", create_reward(RewardSettings.model_validate(common))),
        Service("trainer", create_trainer(TrainerSettings.model_validate(common))),
    ]


def filled(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "0", path)


Ask = Callable[..., "aiohttp.client._RequestContextManager"]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as opened:
        yield opened


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{name}"}


@pytest.mark.slow
async def test_every_route_that_is_not_open_asks_for_a_scope_of_its_service(
    services: list[Service], serve: Serve, session: aiohttp.ClientSession
) -> None:
    """Without a token 401; with a key of any other scope 403 and the name of the missing scope."""
    used = set()
    for service in services:
        url = serve(service.app)
        for method, path, route in service.routes:
            if path in OPEN_PATHS:
                async with session.get(url + path) as response:
                    assert response.status in (200, 503), path
                continue
            where = f"{method} {service.name} {path}"
            async with session.request(method, url + filled(path)) as response:
                assert response.status == 401, where
            if path in FOR_ANY_KEY:
                async with session.get(url + path, headers=key("nobody")) as response:
                    assert response.status == 200, where
                continue
            scope = scope_of(route)
            assert scope is not None, f"{where} names no scope"
            assert scope.startswith(f"{service.name}:"), where
            used.add(scope)
            for other in ("nobody", *(s.name for s in Scope if s is not scope)):
                async with session.request(
                    method, url + filled(path), headers=key(other)
                ) as response:
                    assert response.status == 403, f"{where} with {other}"
                    detail = (await response.json())["error"]
                    assert detail["type"] == "Forbidden"
                    assert detail["message"] == f"the key of '{other}' lacks the scope {scope}"
            for let_in in (scope.name, "all"):
                if method == "GET" and "{" not in path:
                    async with session.get(url + path, headers=key(let_in)) as response:
                        assert response.status not in (401, 403), where
    assert used == set(Scope), "a scope that no route asks for"


async def test_a_browser_may_read_with_the_token_as_its_password(
    services: list[Service], serve: Serve, session: aiohttp.ClientSession
) -> None:
    """The dashboard asks for a token; a foreign page must not start runs with it."""
    url = serve(services[4].app)
    async with session.get(url) as response:
        assert response.status == 401
        assert 'Basic realm="assay"' in response.headers.getall("www-authenticate")[0]
    for path, password, status in (
        ("/", OWN, 200),
        ("/v1/runs", "key-of-TRAINER_READ", 200),
        ("/v1/runs", "key-of-TRAINER_CONTROL", 403),
        ("/v1/runs", "wrong", 401),
        ("/v1/runs", "", 401),
    ):
        headers = {"authorization": aiohttp.encode_basic_auth("anybody", password)}
        async with session.get(url + path, headers=headers) as response:
            assert response.status == status, (path, password)
    headers = {"authorization": aiohttp.encode_basic_auth("anybody", OWN)}
    async with session.post(f"{url}/v1/runs/a/stop", headers=headers) as response:
        assert response.status == 401
    for broken in ("Basic", "Basic ?", "Basic /w==", "Digest x", OWN):
        async with session.get(url, headers={"authorization": broken}) as response:
            assert response.status == 401, broken


def test_the_scopes_are_documented_with_their_routes(services: list[Service]) -> None:
    page = (DOCS / "security.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+:\w+)` \| (.+?) \|", page, re.MULTILINE))
    assert list(rows) == [scope.value for scope in Scope]
    for service in services:
        for method, path, route in service.routes:
            scope = scope_of(route)
            if scope is not None:
                assert f"`{method} {path}`" in rows[scope], f"{method} {path} of {service.name}"


def test_control_actions_are_audited(services: list[Service]) -> None:
    actions = {action_of(route) for service in services for *_, route in service.routes}
    assert actions - {None} == {
        *("publish weights", "begin upload", "pause", "resume", "drain"),
        *("start run", "stop run", "resume run", "start session", "end session"),
    }


async def test_a_key_that_asks_too_often_is_told_when_to_come_again(
    services: list[Service], serve: Serve, session: aiohttp.ClientSession
) -> None:
    """12 a minute: two at once, then a request each five seconds; other keys do not feel it."""
    url = serve(services[3].app)
    answers = []
    for _ in range(4):
        async with session.get(f"{url}/v1/rubrics", headers=key("hasty")) as response:
            answers.append((response.status, response.headers.get("retry-after")))
            if response.status == 429:
                detail = (await response.json())["error"]
    assert [status for status, _ in answers] == [200, 200, 429, 429]
    assert answers[2][1] in ("4", "5")
    assert detail["retryable"] is True
    assert detail["message"] == "the key of 'hasty' may send 12 requests a minute"
    for other in ("all", "REWARD_READ"):
        async with session.get(f"{url}/v1/rubrics", headers=key(other)) as response:
            assert response.status == 200


async def chunks(size: int) -> AsyncIterator[bytes]:
    """Never announces its length."""
    for _ in range(size // 1000):
        yield b"x" * 1000
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_every_route_refuses_a_body_over_the_limit_announced_or_not(
    services: list[Service], serve: Serve, session: aiohttp.ClientSession
) -> None:
    headers = {"authorization": f"Bearer {OWN}", "content-type": "application/json"}
    headers["x-chunk-sha256"] = "0" * 64
    num_unread = 0
    for service in services:
        url = serve(service.app)
        for method, path, _ in service.routes:
            if method not in ("POST", "PUT"):
                continue
            where = f"{method} {service.name} {path}"
            for body in (b"x" * 2 * LIMIT_BYTES, chunks(10 * LIMIT_BYTES)):
                async with session.request(
                    method, url + filled(path), data=body, headers=headers
                ) as response:
                    if isinstance(body, bytes) or response.status == 413:
                        assert response.status == 413, where
                        assert (await response.json())["error"]["type"] == "TooLarge"
                    else:
                        num_unread += 1  # answered before the body was read: none was kept
                        assert path in UNREAD, f"{where}: {response.status}"
    assert num_unread == len(UNREAD)


#: They take no body.
UNREAD = {"/v1/resume", "/v1/runs/{name}/stop", "/v1/runs/{name}/resume"}


@pytest.fixture
def audited() -> Iterator[list[dict[str, object]]]:
    """The lines of the audit log, as a service writes them."""
    lines: list[dict[str, object]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(JsonFormatter("s").format(record)))

    logger, kept = logging.getLogger("assay.audit"), Kept()
    logger.addHandler(kept)
    level = logger.level
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(kept)
    logger.setLevel(level)


async def test_the_audit_log_says_who_did_what_and_who_was_refused(
    services: list[Service],
    serve: Serve,
    session: aiohttp.ClientSession,
    audited: list[dict[str, object]],
) -> None:
    inference, trainer = serve(services[0].app), serve(services[4].app)
    own = {"authorization": f"Bearer {OWN}"}
    weights = {
        "source": {"kind": "folder", "path": "/nowhere"},
        "policy": {"version": 7, "digest": "d7"},
    }
    asked: list[tuple[str, dict[str, str], object]] = [
        (f"{inference}/v1/pause", own, None),
        (f"{inference}/v1/resume", key("INFERENCE_CONTROL"), None),
        (f"{inference}/v1/weights", key("all"), weights),
        (f"{inference}/v1/drain", key("INFERENCE_GENERATE"), None),
        (f"{trainer}/v1/runs", {}, {"name": "a", "config": {}}),
        (f"{trainer}/v1/runs", own, {"name": "a", "config": {}}),
        (f"{trainer}/v1/runs/b/stop", key("all"), None),
    ]
    for url, headers, body in asked:
        async with session.post(url, headers=headers, json=body):
            pass
    details: list[dict[str, object]] = [line["details"] for line in audited]  # type: ignore[misc]
    shown = [
        (line["who"], line["action"], line["outcome"], said["status"])
        for line, said in zip(audited, details, strict=True)
    ]
    assert shown == [
        ("mesh", "pause", "done", 200),
        ("INFERENCE_CONTROL", "resume", "done", 200),
        ("all", "publish weights", "rejected", 422),
        ("INFERENCE_GENERATE", "drain", "refused", 403),
        ("address 127.0.0.1", "start run", "refused", 401),
        ("mesh", "start run", "rejected", 422),
        ("all", "stop run", "rejected", 404),
    ]
    assert (details[2]["version"], details[2]["digest"]) == (7, "d7")
    assert [said.get("name") for said in details[4:]] == [None, "a", "b"]
    for line in audited:
        assert {"time", "request_id"} <= set(line)
        assert "key-of" not in json.dumps(line)
        assert OWN not in json.dumps(line)
