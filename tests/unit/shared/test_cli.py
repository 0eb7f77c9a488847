import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def assay(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | environment,
    )


def test_help_lists_every_command_with_a_line_on_it() -> None:
    shown = assay("--help").stdout
    for command in ("demo", "inference", "judge", "reward", "sandbox", "score", "train", "up"):
        assert command in shown


def test_help_shows_the_help_of_a_group_as_its_summary() -> None:
    shown = assay("--help").stdout
    assert "\nCommands:\n" in shown
    summary = " ".join(shown.partition("  keys ")[2].partition("\n  leaks ")[0].split())
    assert summary == "Make, list and revoke keys of clients, in the key file of the services."
    assert summary in " ".join(assay("keys", "--help").stdout.split())


@pytest.mark.parametrize(
    "command", ["demo", "inference", "judge", "reward", "sandbox", "score", "trainer", "up"]
)
def test_every_command_has_help(command: str) -> None:
    shown = assay(command, "--help")
    assert shown.returncode == 0, shown.stderr


def one_line_error(shown: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in shown.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, shown.stderr
    assert "Traceback" not in shown.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


def test_a_folder_of_services_that_cannot_be_made_is_refused_by_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    shown = assay("up", "--home", str(tmp_path / "file"))
    assert shown.returncode == 2
    assert one_line_error(shown).startswith(f"error: --home: {tmp_path}/file cannot be the folder")


@pytest.mark.slow
def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        shown = assay("judge", "serve", "--port", port)
    assert shown.returncode == 2
    assert f"port {port} on 127.0.0.1 is in use (choose another with --port" in one_line_error(
        shown
    )


@pytest.mark.slow
def test_a_missing_model_folder_is_one_line() -> None:
    shown = assay("inference", "serve", "--model", "/nowhere/model", "--port", "0")
    assert shown.returncode == 2
    assert "there is no model folder /nowhere/model" in one_line_error(shown)


def test_an_unknown_key_of_a_run_file_is_one_line() -> None:
    shown = assay("demo", "grpo.stps=3")
    assert shown.returncode == 2
    assert "grpo.stps: unknown key in demo.yaml (did you mean steps?)" in one_line_error(shown)


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    dataset = tmp_path / "tasks.jsonl"
    dataset.write_text("")
    code = (
        "from pathlib import Path\nfrom assay_shared import cli\n"
        "def fill(): Path('/dev/full').write_text('x')\n"
        "cli.app = lambda **_: fill()\ncli.main([])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200
    )
    assert shown.returncode == 1
    assert "No space left on device" in one_line_error(shown)


def test_a_missing_broker_is_one_line(tmp_path: Path) -> None:
    shown = assay("score", "--dataset", str(tmp_path / "none.jsonl"))
    assert shown.returncode == 2
    assert "there is no file" in one_line_error(shown)


@pytest.mark.parametrize("name", ["runs", "list", "ls"])
def test_a_name_that_people_try_first_names_the_command(name: str) -> None:
    shown = assay(name)
    assert shown.returncode == 2
    assert f"No such command '{name}': `assay trainer list` is meant." in shown.stderr
