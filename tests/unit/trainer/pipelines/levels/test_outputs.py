"""The digests of what a stage made."""

from pathlib import Path

from assay_trainer.pipelines.levels.outputs import changed_outputs, outputs_of, record_outputs, told
from assay_trainer.pipelines.stage_folder import StageFolder


def test_what_changed_is_told_and_points_to_resume_from_do_not_count(tmp_path: Path) -> None:
    own = StageFolder(tmp_path, "s", "1")
    for name in ("a.txt", "models/sft/b.txt", "checkpoints/sft/c.txt", ".lock"):
        file = own.output / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    record_outputs(own)
    assert list(outputs_of(own)) == ["a.txt", "models/sft/b.txt"]
    assert changed_outputs(own) == []
    (own.output / "a.txt").unlink()
    (own.output / "models" / "sft" / "b.txt").write_text("other")
    (own.output / "d.txt").write_text("new")
    expected = ["a.txt is missing", "d.txt is new", "models/sft/b.txt differs"]
    assert changed_outputs(own) == expected
    assert told([f"{n} is new" for n in range(7)]).endswith("4 is new; and 2 more")
