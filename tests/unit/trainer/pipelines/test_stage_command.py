"""The files that decide a stage's result."""

from pathlib import Path

from assay_trainer.pipelines.stage_command import StagePlaces, input_files
from assay_trainer.pipelines.stage_kinds import SFTDataStage


def test_the_files_that_a_file_of_instructions_names_are_inputs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "seeds.jsonl").write_text("{}\n")
    (tmp_path / "runs" / "rules.yaml").write_text("principles: []\n")
    (tmp_path / "runs" / "make.yaml").write_text(
        "seeds: ../seeds.jsonl\nrevision: {constitution: rules.yaml, principles: 1}\nname: rules\n"
    )
    stage = SFTDataStage(kind="sft_data", file=Path("runs/make.yaml"))

    found = input_files(stage, StagePlaces(tmp_path, {}))

    assert [one.name for one in found] == ["make.yaml", "seeds.jsonl", "rules.yaml"]
