"""The demo's page kills a process at a click, and refuses every other caller."""

import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from assay_shared.settings.run_file import load_config
from assay_shared.types import ScoredGroup
from assay_trainer.config import RunConfig
from assay_trainer.service.app import create_app as create_trainer
from assay_trainer.service.demo.api.serving import ServedPage, served_page
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve
from tests.contract.test_pages import HOSTILE
from tests.support.browser.stored_runs import DEMO, keep, make_group, make_run
from tests.support.planted_mesh import PlantedMesh
from tests.unit.trainer.evaluation.test_report import make_step

KILL = "/demo/kills/worker-1"


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[PlantedMesh]:
    mesh = PlantedMesh(tmp_path)
    yield mesh
    mesh.close()


@pytest.fixture
def page(mesh: PlantedMesh) -> Iterator[ServedPage]:
    with served_page(mesh, load_config(RunConfig, DEMO)) as page:
        yield page


@pytest.fixture
async def session(page: ServedPage) -> AsyncIterator[aiohttp.ClientSession]:
    """A browser's session, with the cookie of an opened link."""
    jar = aiohttp.CookieJar(unsafe=True)
    timeout = aiohttp.ClientTimeout(30)
    async with aiohttp.ClientSession(page.url, cookie_jar=jar, timeout=timeout) as opened:
        async with opened.get(page.link(), allow_redirects=False) as response:
            assert (response.status, response.headers["location"]) == (303, "/demo")
        yield opened


def own(page: ServedPage, **changes: str | None) -> dict[str, str]:
    """Return the headers of the page's own script, with changes; None leaves a header out."""
    given = {"authorization": f"Bearer {page.token}", "origin": page.url} | changes
    return {name: value for name, value in given.items() if value is not None}


async def test_a_click_kills_the_process(
    session: aiohttp.ClientSession, page: ServedPage, mesh: PlantedMesh
) -> None:
    child = mesh.children["worker-1"]
    async with session.post(KILL, headers=own(page)) as response:
        assert (response.status, await response.json()) == (
            200,
            {"name": "worker-1", "pid": child.pid},
        )
    assert child.wait(10) == -signal.SIGKILL
    async with session.post(KILL, headers=own(page)) as response:
        assert response.status == 409
    mesh.restart()
    deadline = time.monotonic() + 10
    text = ""
    while "back after" not in text and time.monotonic() < deadline:
        async with session.get("/demo/account") as response:
            text = await response.text()
    assert f'<td class="number">{child.pid}</td><td>back after' in text
    for name in ("trainer", "judge", "..%2Fworker-1"):
        async with session.post(f"/demo/kills/{name}", headers=own(page)) as response:
            assert response.status == 404, name
    assert all(child.poll() is None for child in mesh.children.values())


REFUSED: dict[str, tuple[dict[str, str | None], int]] = {
    "no token; the cookie is there": ({"authorization": None}, 401),
    "a wrong token": ({"authorization": "Bearer x"}, 401),
    "the token as a password": ({"authorization": "Basic eDp5"}, 401),
    "another site's page": ({"origin": "http://evil.example"}, 403),
    "no origin": ({"origin": None}, 403),
    "a sandboxed page": ({"origin": "null"}, 403),
    "another port's page": ({"origin": "http://127.0.0.1:1"}, 403),
    "a name that points here": ({"host": "evil.example", "origin": "http://evil.example"}, 403),
    "this machine's other name": ({"host": "localhost", "origin": "http://localhost"}, 403),
    "a browser's own word": ({"sec-fetch-site": "cross-site"}, 403),
}


@pytest.mark.parametrize("path", [KILL, "/demo/answers"])
async def test_every_other_caller_is_refused(
    session: aiohttp.ClientSession, page: ServedPage, mesh: PlantedMesh, path: str
) -> None:
    for what, (changes, status) in REFUSED.items():
        async with session.post(path, headers=own(page, **changes), json={}) as response:
            assert response.status == status, what
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
        async with session.request(method, path, headers=own(page)) as response:
            assert response.status == 405, method
    async with session.options(path, headers={"origin": "http://evil.example"}) as response:
        assert "access-control-allow-origin" not in response.headers
    assert all(child.poll() is None for child in mesh.children.values())


async def test_nobody_reads_the_page_and_its_token_without_a_link(
    page: ServedPage, session: aiohttp.ClientSession
) -> None:
    async with aiohttp.ClientSession(page.url) as stranger:
        for path in ("/demo", "/demo/account", "/demo/chat", "/", "/runs/demo"):
            async with stranger.get(path) as response:
                assert response.status == 401, path
                assert page.token not in await response.text()
    for path in ("/demo", "/demo/chat"):
        async with session.get(path, headers={"host": "evil.example"}) as response:
            assert response.status == 403, "a name that points here"
        async with session.get(path) as response:
            assert "default-src 'none'" in response.headers["content-security-policy"]
            assert response.headers["cache-control"] == "no-store"


async def test_it_is_served_on_this_machine_alone(page: ServedPage) -> None:
    assert urlsplit(page.url).hostname == "127.0.0.1"


async def test_without_the_demo_there_are_no_such_routes(serve: Serve, tmp_path: Path) -> None:
    app = create_trainer(TrainerSettings(runs=tmp_path))
    assert not [route for route in app.routes if "demo" in getattr(route, "path", "")]
    url = serve(app)
    async with aiohttp.ClientSession(url) as session:
        async with session.post(KILL, headers={"origin": url}) as response:
            assert response.status == 404
        async with session.get("/demo") as response:
            assert response.status == 404


async def test_the_account_is_of_the_stored_events_and_groups(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with session.get("/demo/account") as response:
        assert "come with the first step" in await response.text()
    run = make_run(tmp_path / "demo")
    numbers = {"num_groups": 2, "num_played": 5, "num_flat_before": 0, "failures": {"judge": 1}}
    step = make_step(1, num_asked=8, num_in_flight=2, **numbers)
    run.record("step", **step.model_dump(mode="json"))
    group = make_group(1, 1, *["accepted"] * 7, "failed:judge", prompt=HOSTILE)
    keep(run, 1, _with_draw(group, 7))
    keep(run, 1, _with_draw(group, 7))
    async with session.get("/demo/account") as response:
        text = await response.text()
    facts = {"asked": 8, "trained": 2, "discarded": 3, "in_flight": 2, "missing": 1}
    for name, value in (facts | {"repeated": 1, "failed": 1}).items():
        assert f'data-fact="{name}"' in text
        assert text.partition(f'data-fact="{name}"')[2].partition("<")[0].endswith(f">{value}")
    assert "\N{MINUS SIGN}2.47" in text
    assert "<script>" not in text


def _with_draw(group: ScoredGroup, draw: int) -> ScoredGroup:
    key = f"demo/{draw}/task/v1/code.dense"
    return group.model_copy(update={"group": group.group.model_copy(update={"key": key})})


async def test_the_chat_waits_for_the_end_of_the_run(
    session: aiohttp.ClientSession, page: ServedPage, tmp_path: Path
) -> None:
    make_run(tmp_path / "demo")
    async with session.get("/demo/chat") as response:
        assert "The run is still training" in await response.text()
    question = {"prompt": "hello"}
    async with session.post("/demo/answers", headers=own(page), json=question) as response:
        assert response.status == 404
    for wrong in ({"prompt": "x" * 2001}, {"task": "x" * 1001}, {"n": 5}):
        async with session.post("/demo/answers", headers=own(page), json=wrong) as response:
            assert response.status == 422, wrong
    async with session.post("/demo/answers", headers=own(page), data="x" * 20_000) as response:
        assert response.status == 413
