"""A bench's own sandbox, started from a shell that has tokens of another service."""

import json
from pathlib import Path

import pytest

from assay_sandbox.load.load import open_session
from assay_sandbox.load.own_service import own_service, service_folders, wait_until_ready
from assay_shared.settings.environment import ServiceSettings


async def test_its_own_tokens_replace_a_file_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`assay up` in the same folder gives each command such a file."""
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    monkeypatch.setenv("ASSAY_CLIENT_TOKENS_FILE", str(keys))
    own = {"ASSAY_CLIENT_TOKENS": json.dumps({"user": "t" * 32})}
    with service_folders() as (folder, temporary):
        async with (
            own_service(folder / "log", temporary, own) as (url, _),
            open_session(ServiceSettings()) as session,
        ):
            assert await wait_until_ready(session, url, folder / "log")
