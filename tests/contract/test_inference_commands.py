"""`assay chat` and `assay generate`, as a person runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay_inference.api.app import create_app
from assay_inference.settings import InferenceSettings
from tests.conftest import Serve
from tests.support.policies import SERVABLE, make_policy_folder
from tests.support.vllm.interpreter import START_TIMEOUT_S


def assay(
    *arguments: str, stdin: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S + 60,
        env=os.environ | environment,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_policy_folder(tmp_path / "policy", sharpness=3.0, config=SERVABLE)
    return tmp_path / "policy"


@pytest.fixture
def url(serve: Serve, folder: Path) -> str:
    settings = {"inference_device": "cpu", "inference_model": folder}
    return serve(create_app(InferenceSettings.model_validate(settings)))


def test_a_file_of_requests_is_answered_in_its_order(url: str, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": f"x plus {n}", "sampling": {"max_tokens": 3}} for n in range(20)
    ]
    rows[4] = {"prompt": "x", "sampling": {"max_tokens": 5000}}
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = assay("generate", str(file), "--output", str(output), "--url", url)
    assert run.returncode == 1, "one of them failed"
    assert run.stderr.endswith("20 of 20, 1 failed\n")
    answers = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(answers) == 20
    assert "context of 128" in answers[4]["failure"]["message"]
    assert all(len(a["completions"]) == 1 for n, a in enumerate(answers) if n != 4)


@pytest.mark.slow
def test_a_conversation_goes_on_until_an_empty_line(url: str) -> None:
    options = ("--url", url, "--max-tokens", "4", "--temperature", "0")
    run = assay("chat", *options, stdin="Hello.\nAnd now?\n\n")
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("> ") == 3
