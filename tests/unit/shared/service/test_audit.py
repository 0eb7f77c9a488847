"""The audit file: capped, set aside in order, shared by processes."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay_shared.service import audit
from assay_shared.settings.environment import ServiceSettings

WRITER = """
import logging, sys
from pathlib import Path
from assay_shared.service import audit
from assay_shared.settings.environment import ServiceSettings
settings = ServiceSettings(audit_file=Path(sys.argv[1]), audit_file_max_bytes=4096)
audit.set_up_audit(sys.argv[2], settings)
for number in range(60):
    audit.record("pause", "done", who="mesh", number=number)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[ServiceSettings]:
    yield ServiceSettings(audit_file=tmp_path / "logs" / "audit.jsonl", audit_file_max_bytes=4096)
    logger = logging.getLogger("assay.audit")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def lines(folder: Path) -> list[dict[str, object]]:
    files = [file for file in folder.iterdir() if file.suffix != ".lock"]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_full_file_is_set_aside_and_the_oldest_is_deleted(settings: ServiceSettings) -> None:
    assert settings.audit_file is not None
    kept = settings.model_copy(update={"audit_files_kept": 2})
    audit.set_up_audit("judge", kept)
    for number in range(100):
        audit.record("pause", "done", who="mesh", number=number)
    folder = settings.audit_file.parent
    names = {file.name for file in folder.iterdir()}
    assert names == {"audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.lock"}
    assert all(file.stat().st_size <= 4096 for file in folder.iterdir())
    ordered = [
        json.loads(line)["details"]["number"]
        for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")
        for line in (folder / name).read_text().splitlines()
    ]
    assert ordered == list(range(ordered[0], 100)), "none is missing between the first and last"


def test_processes_that_share_a_file_lose_no_line(settings: ServiceSettings) -> None:
    assert settings.audit_file is not None
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(settings.audit_file), name])
        for name in ("inference", "trainer", "sandbox")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    found = sorted(
        (str(line["service"]), line["details"]["number"])  # type: ignore[index]
        for line in lines(settings.audit_file.parent)
    )
    assert found == sorted((n, i) for n in ("inference", "trainer", "sandbox") for i in range(60))


def test_a_commands_action_is_written_whether_it_ends_well_or_not(
    settings: ServiceSettings,
) -> None:
    assert settings.audit_file is not None
    audit.set_up_audit("judge", settings)
    with audit.recorded("calibrate", report="a"):
        pass
    with pytest.raises(ZeroDivisionError), audit.recorded("calibrate", report="b"):
        raise ZeroDivisionError
    shown = [(line["action"], line["outcome"]) for line in lines(settings.audit_file.parent)]
    assert shown == [("calibrate", "done"), ("calibrate", "failed")]
    assert str(lines(settings.audit_file.parent)[0]["who"]).startswith("user ")
