"""Sandboxes for tests: a sandbox of each kind for a whole file, or as many as a test makes."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.settings import SandboxSettings

NUM_SLOTS = 2
MakeSandbox = Callable[..., Awaitable[LocalSandbox]]


async def open_sandbox(**settings: object) -> LocalSandbox:
    values = {"sandbox_minimum_isolation": "fallback", "sandbox_slots": NUM_SLOTS} | settings
    sandbox = LocalSandbox(SandboxSettings.model_validate(values), CollectorRegistry())
    await sandbox.open()
    return sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of programs; every slot's user must be able to reach it."""
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if os.geteuid() == 0 and str(parent).startswith("/tmp/pytest-of"):
            parent.chmod(0o755)
    return tmp_path


@pytest_asyncio.fixture(loop_scope="module")
async def make_sandbox(folder: Path) -> AsyncIterator[MakeSandbox]:
    """Make sandboxes for the life of the test."""
    made = []

    async def make(**settings: object) -> LocalSandbox:
        made.append(await open_sandbox(**{"sandbox_work_folder": folder} | settings))
        return made[-1]

    yield make
    for sandbox in made:
        await sandbox.close()


#: The two ways in which slots are held apart; tests/security is for every level.
@pytest_asyncio.fixture(params=["pooled", "fallback"], scope="module", loop_scope="module")
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[LocalSandbox]:
    sandbox = await open_sandbox(sandbox_isolation=request.param)
    if sandbox.isolation != request.param:
        pytest.skip(f"this host does not grant isolation {request.param}")
    yield sandbox
    await sandbox.close()
