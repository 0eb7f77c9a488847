"""What a failed stage's log says to do."""

import shutil
from pathlib import Path

import pytest

from assay_trainer.pipelines.diagnosis.failures import why_it_failed
from assay_trainer.pipelines.stage_folder import StageFolder


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            1,
            "micro_batch_size",
        ),
        ("", -9, "the system killed it"),
        ("", 137, "the system killed it"),
        ("OSError: [Errno 28] No space left on device", 1, "assay prune"),
        ("error: no inference service at http://127.0.0.1:8001", 1, "assay doctor"),
        ("error: 13 of 38 held-out tasks are among the training tasks", 2, "assay leaks"),
        ("error: the loss of step 3 is not finite", 1, "warmup_steps"),
    ],
)
def test_the_last_lines_of_a_log_name_what_to_change(
    tmp_path: Path, line: str, code: int, word: str
) -> None:
    own = StageFolder(tmp_path, "sft", "1")
    own.path.mkdir(parents=True)
    own.log.write_text(f"SFT ...\n{line}\n\n")
    assert word in " ".join(why_it_failed(own, code))


def test_a_log_that_a_full_disk_cut_tells_the_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = StageFolder(tmp_path, "sft", "1")
    own.path.mkdir(parents=True)
    own.log.write_text("step 3 of 10\n")
    full = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: full)
    assert "assay prune" in " ".join(why_it_failed(own, 1))


def test_an_unknown_failure_gets_no_advice(tmp_path: Path) -> None:
    own = StageFolder(tmp_path, "sft", "1")
    own.path.mkdir(parents=True)
    own.log.write_text("error: something else\n")
    assert list(why_it_failed(own, 1)) == []
