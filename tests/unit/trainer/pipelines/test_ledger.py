"""What a stage cost, from its results."""

import json
from pathlib import Path

from assay_trainer.pipelines.ledger import costs_of
from tests.support.pipelines import open_pipeline, write_repaired


def test_the_answers_that_a_repair_is_compared_with_cost_tokens(tmp_path: Path) -> None:
    stage = {"kind": "repair", "policy": "x", "sets": {"held": "held.jsonl"}}
    found = open_pipeline(tmp_path, {"r": stage})
    write_repaired(found, "r")
    folder = found.stages["r"].folder
    metrics = json.loads((folder.output / "held" / "metrics.json").read_text())
    assert metrics["overall"]["repair"]["control_tokens"] == 60 + 41

    costs = costs_of(found.stages["r"].stage, folder, found.config)
    assert costs.tokens == 100 + 41
