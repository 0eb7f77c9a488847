"""Redis over TLS by a private authority, with an ACL user and a password with signs."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from redis.exceptions import RedisError

from assay_shared.errors import ConfigError, Unreachable
from assay_shared.providers.state.redis_connection import connect
from assay_shared.runs.queue import ROLLOUT_QUEUE, RUN_GROUP_TASK, make_celery
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_trainer.rollouts.store import GroupStore
from tests.support.tls_redis import PASSWORD, USER, TlsRedis


@pytest.fixture(scope="module")
def server() -> Iterator[TlsRedis]:
    """One server for all tests of the file."""
    found = TlsRedis()
    yield found
    found.stop()


def address(
    monkeypatch: pytest.MonkeyPatch, server: TlsRedis, ca: Path | None, database: int = 0
) -> str:
    """Return the address of which the services read the parts, as the chart sets them."""
    monkeypatch.setenv("ASSAY_REDIS_URL", server.url(database))
    monkeypatch.setenv("ASSAY_REDIS_USERNAME", USER)
    monkeypatch.setenv("ASSAY_REDIS_PASSWORD", PASSWORD)
    monkeypatch.setenv("ASSAY_REDIS_CA_FILE", str(ca or ""))
    return read_settings(ServiceSettings).redis_url


def ask_judges_way(url: str) -> None:
    async def ask() -> None:
        async with connect(url, 5.0) as client:
            await client.ping()

    asyncio.run(ask())


def ask_celerys_way(url: str) -> None:
    with make_celery(url) as celery, celery.connection_for_write() as connection:
        channel = connection.channel()
        channel.client.ping()


def ask_trainers_way(url: str) -> None:
    GroupStore(url).check()


WAYS = [ask_judges_way, ask_celerys_way, ask_trainers_way]


@pytest.mark.parametrize("way", WAYS)
def test_every_client_gets_through_with_its_parts(
    monkeypatch: pytest.MonkeyPatch, server: TlsRedis, way: Callable[[str], None]
) -> None:
    way(address(monkeypatch, server, server.ca))


@pytest.mark.parametrize("authority", ["stranger", "system"])
@pytest.mark.parametrize("way", WAYS)
def test_no_client_takes_a_server_that_nobody_vouches_for(
    monkeypatch: pytest.MonkeyPatch,
    server: TlsRedis,
    way: Callable[[str], None],
    authority: str,
) -> None:
    url = address(monkeypatch, server, server.stranger if authority == "stranger" else None)
    with pytest.raises((RedisError, Unreachable, OSError), match=r"(?i)certificate"):
        way(url)


def test_another_password_is_refused(monkeypatch: pytest.MonkeyPatch, server: TlsRedis) -> None:
    url = address(monkeypatch, server, server.ca)
    other = redis.Redis.from_url(url.replace("signs", "sighs"))
    with other as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_two_releases_in_two_databases_take_nothing_of_each_other(
    monkeypatch: pytest.MonkeyPatch, server: TlsRedis
) -> None:
    urls = [address(monkeypatch, server, server.ca, database) for database in (0, 1)]
    with make_celery(urls[0]) as celery:
        celery.send_task(RUN_GROUP_TASK, [{"run": "a"}], queue=ROLLOUT_QUEUE)
    with redis.Redis.from_url(urls[0]) as first, redis.Redis.from_url(urls[1]) as second:
        (message,) = first.lrange(ROLLOUT_QUEUE, 0, -1)
        assert json.loads(message)["headers"]["task"] == RUN_GROUP_TASK
        assert second.keys("*") == []
    # Control messages travel by channels, which no database keeps apart: their names do.
    with make_celery(urls[0]) as one, make_celery(urls[1]) as two:
        prefixes = [app.connection_for_write().channel().keyprefix_fanout for app in (one, two)]
    assert prefixes == ["/0.", "/1."]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"URL": "redis://:a@r:6379/0", "PASSWORD": "b"}, "give it there or apart"),
        ({"URL": "unix:///tmp/x.sock", "PASSWORD": "b"}, "redis:// or rediss://"),
        ({"URL": "redis://r:6379/0", "CA_FILE": "/nowhere.pem"}, "CA_FILE needs rediss://"),
        ({"URL": "rediss://r:6379/0", "CA_FILE": "/nowhere.pem"}, "there is no file /nowhere.pem"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"ASSAY_REDIS_{name}", value)
    with pytest.raises(ConfigError, match=message) as caught:
        read_settings(ServiceSettings)
    assert caught.value.field == "ASSAY_REDIS_URL"
