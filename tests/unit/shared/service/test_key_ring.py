"""Keys: made, found, expired and revoked while a service runs."""

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from assay_shared.errors import Conflict, InvalidInput, NotFound, Unauthorized
from assay_shared.service import key_ring
from assay_shared.service.key_ring import KeyRing
from assay_shared.settings.api_keys import ClientKey, Scope
from assay_shared.settings.key_file import add_key, read_keys, revoke_key


@pytest.fixture(autouse=True)
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ring, "_LOOK_EVERY_S", 0.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def ring(file: Path) -> KeyRing:
    own = {"": ClientKey(token=SecretStr("own"))}
    return KeyRing(own | read_keys(file), "", file)


def name_of(keys: KeyRing, token: str) -> str | None:
    found = keys.find(token)
    return None if found is None else found.name


def test_a_key_works_as_soon_as_it_is_made_and_no_longer_than_until_it_is_revoked(
    file: Path,
) -> None:
    keys = ring(file)
    token = add_key(file, "alice")
    assert len(token) == 64
    assert name_of(keys, token) == "alice"
    assert name_of(keys, "own") == ""
    other = add_key(file, "bob")
    assert name_of(keys, other) == "bob"
    revoke_key(file, "alice")
    assert name_of(keys, token) is None
    assert name_of(keys, other) == "bob"
    assert name_of(keys, "own") == ""


def test_the_file_is_for_its_owner_alone(file: Path) -> None:
    add_key(file, "alice")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"a": 1}', '{"mesh": "t"}', '{"a": "t", "b": "t"}', '{"a": "own"}', "\udcff"],
)
def test_a_broken_file_leaves_the_keys_as_they_were(
    file: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    keys = ring(file)
    token = add_key(file, "alice")
    assert name_of(keys, token) == "alice"
    file.write_text(text, errors="surrogateescape")
    assert name_of(keys, token) == "alice"
    assert "the keys stay as they were" in caplog.text
    assert token not in caplog.text


def test_a_file_that_is_no_json_is_told_without_an_empty_field(file: Path) -> None:
    file.write_text("{")
    with pytest.raises(InvalidInput, match="keys.json: Invalid JSON"):
        read_keys(file)


def test_a_file_that_is_gone_has_no_keys(file: Path) -> None:
    keys = ring(file)
    token = add_key(file, "alice")
    assert name_of(keys, token) == "alice"
    file.unlink()
    assert name_of(keys, token) is None
    assert name_of(keys, "own") == ""


def test_an_expired_key_is_refused_by_name(file: Path) -> None:
    keys = ring(file)
    soon = datetime.now(UTC) + timedelta(days=1)
    live = keys.find(add_key(file, "alice", expires_at=soon))
    assert live is not None
    live.check_not_expired()
    dead = keys.find(add_key(file, "bob", expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    assert dead is not None
    with pytest.raises(Unauthorized, match="the key of 'bob' expired at"):
        dead.check_not_expired()


def test_other_keys_do_not_refill_a_keys_requests(file: Path) -> None:
    keys = ring(file)
    token = add_key(file, "hasty", requests_per_minute=6)
    client = keys.find(token)
    assert client is not None
    client.count()
    add_key(file, "other")
    assert keys.find(token) is client


def test_what_cannot_be_a_key_is_refused(file: Path) -> None:
    add_key(file, "alice", scopes=frozenset({Scope.SANDBOX_RUN}))
    with pytest.raises(Conflict, match="there is a key of 'alice'"):
        add_key(file, "alice")
    for name in ("mesh", "", "a b", "x" * 65, "../a"):
        with pytest.raises(InvalidInput, match="is not a valid client name"):
            add_key(file, name)
    with pytest.raises(NotFound, match="no key of 'bob'"):
        revoke_key(file, "bob")
    assert json.loads(file.read_text())["alice"]["scopes"] == ["sandbox:run"]
