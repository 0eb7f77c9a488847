"""`assay handoff`, as a person runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay_shared.weights import checkpoint
from tests.support.policies import SERVABLE, make_policy_folder
from tests.support.verl_shards import write_shards
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_python

_QUICK = ("--max-tokens", "8", "--min-stopping", "0", "--device", "cpu")
pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_policy_folder(tmp_path / "a policy", sharpness=3.0, config=SERVABLE)
    return tmp_path / "a policy"


@pytest.fixture
def prompts(tmp_path: Path) -> tuple[str, str]:
    rows = [{"prompt": "x plus 1"}, {"messages": [{"role": "user", "content": "x times 2"}]}]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "--prompts", str(file)


def assay(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "handoff", *arguments],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S + 200,
        env=without_vllm() | environment,
    )


def without_vllm() -> dict[str, str]:
    named = ("ASSAY_VLLM", "ASSAY_INFERENCE_VLLM_PYTHON")
    return {name: one for name, one in os.environ.items() if name not in named} | {"COLUMNS": "300"}


def verdicts(output: Path) -> dict[str, str]:
    manifest = json.loads((output / "handoff.json").read_text())
    return {check["name"]: check["verdict"] for check in manifest["checks"]}


def test_a_folder_is_written_checked_and_described(
    folder: Path, tmp_path: Path, prompts: tuple[str, str]
) -> None:
    (folder / "optimizer.pt").write_bytes(b"of a training")
    output = tmp_path / "handed off"
    done = assay(str(folder), "--output", str(output), *_QUICK, *prompts)
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(output)
    assert found.pop("serves in vLLM") == "SKIPPED"
    assert set(found.values()) == {"PASS"}
    assert len(found) == 13
    assert "serving with vLLM: not tried" in done.stdout
    manifest = json.loads((output / "handoff.json").read_text())
    assert manifest["digest"] == checkpoint.digest(output)
    assert manifest["source"]["digest"] == checkpoint.digest(folder)
    assert manifest["left_out"] == ["optimizer.pt"]
    digests = {name: checkpoint.file_digest(output / name) for name in manifest["files"]}
    assert digests == {name: one["sha256"] for name, one in manifest["files"].items()}
    assert "| same as the source | PASS |" in (output / "HANDOFF.md").read_text()
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_fails_a_check_says_what_it_cannot_be_used_for(
    folder: Path, tmp_path: Path, prompts: tuple[str, str]
) -> None:
    file = folder / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": 7}))
    output = tmp_path / "out"
    done = assay(str(folder), "--output", str(output), *_QUICK, *prompts)
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(output)["end tokens"] == "FAIL"
    assert "conversations: no: end tokens" in done.stdout
    assert "loading with transformers: yes" in done.stdout


@pytest.mark.nightly
def test_shards_of_verl_become_the_folder_they_were_made_of(
    folder: Path, tmp_path: Path, prompts: tuple[str, str]
) -> None:
    shards = write_shards(folder, tmp_path / "global_step_12" / "actor")
    output = tmp_path / "out"
    done = assay(str(shards.parent), "--output", str(output), *_QUICK, *prompts)
    assert done.returncode == 0, done.stdout + done.stderr
    weights = "model.safetensors"
    assert (output / weights).read_bytes() == (folder / weights).read_bytes()
    assert json.loads((output / "handoff.json").read_text())["source"]["step"] == 12


@pytest.mark.nightly
def test_a_killed_command_leaves_no_folder_and_works_again(
    folder: Path, tmp_path: Path, prompts: tuple[str, str]
) -> None:
    output = tmp_path / "out"
    arguments = ("handoff", str(folder), "--output", str(output), *_QUICK, *prompts)
    process = subprocess.Popen(
        [sys.executable, "-m", "assay_shared.cli", *arguments],
        env=without_vllm(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    partial = tmp_path / ".out.partial"
    deadline = time.monotonic() + 60
    while not (partial / "config.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert partial.exists()
    assert not output.exists()
    assert not (partial / "handoff.json").exists()
    done = assay(*arguments[1:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.glob(".*"))


@NEEDS_VLLM
@pytest.mark.timeout(START_TIMEOUT_S + 300)
def test_vllm_holds_the_weights_and_answers_as_transformers(
    folder: Path, tmp_path: Path, prompts: tuple[str, str]
) -> None:
    done = assay(
        *(str(folder), "--output", str(tmp_path / "out"), *_QUICK, *prompts),
        ASSAY_VLLM=vllm_python(),
        ASSAY_INFERENCE_VLLM_ARGUMENTS="--enforce-eager",
        VLLM_CPU_KVCACHE_SPACE="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdicts(tmp_path / "out")["serves in vLLM"] == "PASS"
    assert "26 of 26 tensors compared" in (tmp_path / "out" / "HANDOFF.md").read_text()
