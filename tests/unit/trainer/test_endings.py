"""Every end of a run leaves its cause: whatever is raised, on a full disk, after a kill."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic_core import PydanticSerializationError
from safetensors import SafetensorError

from assay_shared.errors import InternalFault
from assay_shared.runs.run_folder import Event, RunFolder, RunStatus
from assay_shared.runs.run_lock import owner_of
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.endings import ending
from assay_trainer.service.record import create_run
from assay_trainer.service.runs import Runs
from assay_trainer.stop import Stopped
from tests.conftest import wait_until
from tests.support.valkey import TestValkey

DEMO = yaml.safe_load((Path(trainer_config.__file__).parent / "service" / "demo.yaml").read_text())


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create_run(tmp_path / "run", RunConfig.model_validate(DEMO))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("inline_container.cc: unexpected pos"),
        SafetensorError("header too large"),
        json.JSONDecodeError("Expecting value", "", 0),
        PydanticSerializationError("surrogates not allowed"),
        MemoryError(),
        OSError(28, "No space left on device"),
        SystemExit(3),
        ValueError("half a character: \ud800"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unexpected_end_names_its_error_and_leaves_its_traceback(
    folder: RunFolder, error: BaseException
) -> None:
    shown: list[Event] = []
    with pytest.raises(type(error)), ending(folder, "me", shown.append):
        raise error
    (event,) = folder.read_events()
    assert shown == [event]
    assert event.kind == "run_failed"
    assert str(event.data["message"]).startswith(f"{type(error).__name__}")
    status = folder.read_status()
    assert (status.state, status.message, status.owner) == ("failed", event.data["message"], "me")
    traceback = (folder.path / str(event.data["traceback"])).read_text()
    assert traceback.startswith("Traceback")
    assert __file__ in traceback


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Stopped("by its user"), "run_stopped"),
        (KeyboardInterrupt("twice"), "run_stopped"),
        (InternalFault("the loss is nan"), "run_failed"),
    ],
)
def test_an_expected_end_has_no_traceback(
    folder: RunFolder, error: BaseException, kind: str
) -> None:
    with pytest.raises(type(error)), ending(folder, "me", lambda _: None):
        raise error
    (event,) = folder.read_events()
    assert (event.kind, event.data) == (kind, {"message": str(error)})
    assert folder.read_status().state == kind.removeprefix("run_")
    assert not (folder.path / "failures").exists()


def test_the_end_of_a_process_that_was_killed_is_recorded_by_the_next(folder: RunFolder) -> None:
    folder.write_status(RunStatus(state="running", stage="grpo", step=7, owner="process 7"))
    with ending(folder, "me", lambda _: None):
        pass
    (event,) = folder.read_events()
    assert event.kind == "run_failed"
    assert "process 7 ended without a word" in str(event.data["message"])


FILL = """
import os, sys
from pathlib import Path
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.endings import ending
folder = RunFolder(Path(sys.argv[1]))
with ending(folder, "me", lambda event: print(event.kind)):
    with open(folder.path / "big", "wb", buffering=0) as file:
        while True:
            folder.record("progress", stage="sft", done=1)
            file.write(bytes(65536))
"""


def test_a_full_disk_does_not_keep_the_end_from_being_written(tmp_path: Path) -> None:
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(tmp_path)], check=False
        ).returncode
    ):
        pytest.skip("a small file system needs root")
    try:
        folder = create_run(tmp_path / "run", RunConfig.model_validate(DEMO))
        done = subprocess.run(
            [sys.executable, "-c", FILL, str(folder.path)], capture_output=True, text=True
        )
        assert "No space left on device" in done.stderr
        *_, last = folder.read_events()
        assert last.kind == "run_failed"
        assert "No space left" in str(last.data["message"])
        assert (folder.path / str(last.data["traceback"])).stat().st_size > 100
        assert folder.read_status().state == "failed"
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


#: Data whose making lasts long enough to be interrupted.
LONG = DEMO | {"grpo": None, "data": DEMO["data"] | {"validation": None, "leaks": None}}
LONG = LONG | {"sft": {"steps": 100_000, "batch_size": 2, "checkpoint_every": 50_000}}


def start(folder: RunFolder, valkey: TestValkey) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "assay_shared.cli", "train", "--resume", str(folder.path)],
        env=os.environ | {"ASSAY_REDIS_URL": valkey.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def is_held(folder: RunFolder) -> Callable[[], bool]:
    return lambda: owner_of(folder.path) is not None


@pytest.mark.slow
def test_a_real_run_is_owned_and_a_signal_before_its_first_stage_stops_it(
    tmp_path: Path, valkey: TestValkey
) -> None:
    folder = create_run(tmp_path / "run", RunConfig.model_validate(LONG))
    first = start(folder, valkey)
    try:
        wait_until(is_held(folder), "the run to be held")
        second = start(folder, valkey)
        told, _ = second.communicate(timeout=120)
        assert second.returncode == 3
        assert f"run run belongs to process {first.pid}" in told
        (info,) = Runs(tmp_path).list()
        assert info.status.state == "running", "as the service shows a command's run"
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=200)
    finally:
        first.kill()
    kinds = [event.kind for event in folder.read_events()]
    assert [kind for kind in kinds if kind.startswith("run_")] == ["run_stopped"]
    assert folder.read_status().state == "stopped"


def test_a_killed_run_is_shown_as_failed_with_its_process(
    tmp_path: Path, valkey: TestValkey
) -> None:
    folder = create_run(tmp_path / "run", RunConfig.model_validate(LONG))
    process = start(folder, valkey)
    wait_until(lambda: folder.read_status().state == "running", "the run to begin")
    process.kill()
    process.communicate()
    assert folder.read_status().state == "running", "it could say nothing"
    (info,) = Runs(tmp_path).list()
    assert info.status.state == "failed"
    assert f"process {process.pid} on" in info.status.message
    assert "ended without a word" in info.status.message
