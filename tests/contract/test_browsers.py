"""A foreign web page can do nothing to services on its reader's machine."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.service.browser_session import COOKIE, make_link
from assay_trainer.service.app import create_app as create_trainer
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve

TOKEN = "the-token"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    jar = aiohttp.CookieJar(unsafe=True)  # it would keep none of an address otherwise
    async with aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(30)) as opened:
        yield opened


def trainer(tmp_path: Path, **settings: object) -> TrainerSettings:
    return TrainerSettings.model_validate({"runs": tmp_path} | settings)


HOSTS = {
    "evil.example:8005": 403,
    "evil.example": 403,
    "localhost.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "": 403,
    "[::1": 200,  # an address whose end is missing is one all the same, and no page's name
    "localhost:8005": 200,
    "a.localhost": 200,
    "LOCALHOST": 200,
    "10.1.2.3:8005": 200,
    "[::1]:8005": 200,
    "named.example:8005": 200,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
async def test_without_a_token_a_name_that_somebody_points_here_is_refused(
    serve: Serve, session: aiohttp.ClientSession, tmp_path: Path, host: str, status: int
) -> None:
    url = serve(create_trainer(trainer(tmp_path, allowed_hosts="named.example")))
    async with session.get(f"{url}/v1/runs", headers={"host": host}) as response:
        assert response.status == status
        if status == 403:
            assert "is not a name of this service" in (await response.json())["error"]["message"]
    async with session.get(f"{url}/health", headers={"host": host}) as response:
        assert response.status == 200


async def test_where_a_token_is_asked_for_any_name_will_do_unless_some_are_given(
    serve: Serve, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    headers = {"host": "assay.example", "authorization": f"Bearer {TOKEN}"}
    for hosts, status in (("", 200), ("assay.example", 200), ("other.example", 403)):
        url = serve(create_trainer(trainer(tmp_path, token=TOKEN, allowed_hosts=hosts)))
        async with session.get(f"{url}/v1/runs", headers=headers) as response:
            assert response.status == status, hosts


async def test_a_page_of_another_site_changes_nothing(
    serve: Serve, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    url = serve(create_trainer(trainer(tmp_path)))
    own = urlsplit(url).netloc
    for origin, status in (
        ("http://evil.example", 403),
        ("null", 403),
        (f"http://{own}.evil.example", 403),
        ("http://127.0.0.1:1", 403),
        (f"http://{own}", 404),
        (None, 404),
    ):
        headers = {} if origin is None else {"origin": origin}
        async with session.post(f"{url}/v1/runs/none/stop", headers=headers) as response:
            assert response.status == status, origin
    sandbox = serve(create_sandbox(SandboxSettings(sandbox_slots=1)))
    body = {"language": "python", "code": "print(1)"}
    headers = {"origin": "http://evil.example"}
    async with session.post(f"{sandbox}/v1/execute", json=body, headers=headers) as response:
        assert response.status == 403


async def test_a_script_with_a_token_may_ask_from_anywhere(
    serve: Serve, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    url = serve(create_trainer(trainer(tmp_path, token=TOKEN)))
    headers = {"origin": "http://app.example", "authorization": f"Bearer {TOKEN}"}
    async with session.post(f"{url}/v1/runs/none/stop", headers=headers) as response:
        assert response.status == 404


async def test_a_link_opens_the_dashboard_once_and_reads_alone(
    serve: Serve, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    url = serve(create_trainer(trainer(tmp_path, token=TOKEN)))
    link = make_link(url, TOKEN)
    async with session.get(link, allow_redirects=False) as response:
        assert response.status == 303
        assert response.headers["location"] == "/"
        cookie = response.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
    for path in ("/", "/v1/runs"):
        async with session.get(url + path) as response:
            assert response.status == 200, path
    async with session.post(f"{url}/v1/runs/none/stop") as response:
        assert response.status == 401, "a cookie starts and stops nothing"
    async with aiohttp.ClientSession() as other, other.get(link) as response:
        assert response.status == 401, "the link was used"
        assert "assay dashboard" in await response.text()


@pytest.mark.parametrize("change", ["code", "end", "token", "empty", "cookie"])
async def test_links_and_cookies_cannot_be_made_without_the_token(
    serve: Serve, session: aiohttp.ClientSession, tmp_path: Path, change: str
) -> None:
    url = serve(create_trainer(trainer(tmp_path, token=TOKEN)))
    link = make_link(url, TOKEN)
    end, _, rest = link.partition("code=")[2].partition(".")
    wrong = {
        "code": link[:-1] + ("0" if link[-1] != "0" else "1"),
        "end": f"{url}/open?code={int(end) + 10**6}.{rest}",
        "token": make_link(url, "another"),
        "empty": f"{url}/open?code=",
        "cookie": url,
    }[change]
    # A link's code does not work as a cookie.
    headers = {"cookie": f"{COOKIE}={end}.{rest}"} if change == "cookie" else {}
    async with session.get(wrong, headers=headers) as response:
        assert response.status == 401


async def test_pages_may_not_be_framed_guessed_at_or_extended(
    serve: Serve, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    url = serve(create_trainer(trainer(tmp_path)))
    for path in ("/", "/docs", "/v1/runs", "/nothing"):
        async with session.get(url + path) as response:
            assert response.headers["x-content-type-options"] == "nosniff", path
            assert response.headers["x-frame-options"] == "DENY", path
            assert response.headers["referrer-policy"] == "no-referrer", path
            if path == "/":
                policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/=]+'", policy)) == 2
    assert "unsafe" not in policy
