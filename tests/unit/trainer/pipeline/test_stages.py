"""The end of a stage with nothing to teach stands once in what a resume has not superseded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.curriculum.state import Advance
from assay_trainer.events import living
from assay_trainer.pipeline.stages import _record_end


def test_a_resumed_run_tells_a_stage_it_ends_again_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    run: Any = SimpleNamespace(
        folder=folder, record=lambda kind, **data: folder.record(kind, **data)
    )
    end = Advance("b", "c", "nothing to teach")

    def told() -> int:
        return sum(one.kind == "curriculum_advanced" for one in living(folder.read_events()))

    _record_end(run, 2, end)
    folder.record("resumed", stage="grpo", step=2, num_superseded=0)
    _record_end(run, 2, end)
    assert told() == 1, "the checkpoint after step 2 is from before the end"
    folder.record("resumed", stage="grpo", step=1, num_superseded=2)
    assert told() == 0
    _record_end(run, 2, end)
    assert told() == 1
