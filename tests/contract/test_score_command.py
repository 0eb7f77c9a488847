"""`assay score` with a rubric in a file: it starts a separate service, and leaves nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parent.parent.parent / "docs" / "reward_proofs.md").read_text()
SECTION = PAGE.partition("## Your own reward in one file")[2].partition("\n## ")[0]


def block(language: str) -> str:
    """The first example of the page's section in this language."""
    return SECTION.partition(f"```{language}\n")[2].partition("```")[0]


def assay(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "score", *arguments],
        cwd=folder,
        env=os.environ | {"ASSAY_REWARD_URL": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def write(folder: Path) -> None:
    """The documents' own example, with its output."""
    (folder / "rewards").mkdir()
    (folder / "rewards" / "mine.py").write_text(block("python") + "print('loaded')\n")
    (folder / "mine.yaml").write_text(block("yaml"))
    (folder / "answers.jsonl").write_text(block("bash").split("'")[1] + "\n")


def test_a_rubrics_file_and_answers_are_enough(tmp_path: Path) -> None:
    assert len(block("python").splitlines()) <= 10
    write(tmp_path)
    arguments = ("--rubric", "mine.yaml", "--answers", "answers.jsonl", "--output", "rewards.jsonl")
    done = assay(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert "accepted 1 of 2" in done.stdout
    assert [line.split()[-4:] for line in done.stdout.splitlines()[:2]] == [
        ["1", "accepted", "score", "1"],
        ["0", "wrong_answer", "score", "0"],
    ]
    assert "mine.py:score printed: loaded" in done.stderr
    rewards = [json.loads(line) for line in (tmp_path / "rewards.jsonl").read_text().splitlines()]
    assert [one["reward"]["value"] for one in rewards] == [1.0, 0.0]


def test_what_cannot_be_used_is_told_in_a_line(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "mine.yaml").write_text(block("yaml").replace("mine.py", "none.py"))
    done = assay(tmp_path, "--rubric", "mine.yaml", "--answers", "answers.jsonl")
    assert done.returncode == 2
    assert done.stderr.startswith("error: components.0: rewards/none.py cannot be read: No such")
    done = assay(tmp_path, "--rubric", "math", "--answers", "answers.jsonl")
    assert done.returncode == 1
    assert "no reward service at http://127.0.0.1:9: Connection refused" in done.stderr
    assert "ASSAY_REWARD_URL" in done.stderr
