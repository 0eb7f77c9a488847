"""What a stage cost, from its results."""

from pathlib import Path

from assay_trainer.evaluation.metrics.measure import measure
from assay_trainer.evaluation.records.folder import read_evaluation
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import RoundRecord
from assay_trainer.pipelines.ledger import costs_of
from tests.support.evaluations import RIGHT, WRONG, make_sample, write_evaluation
from tests.support.pipelines import open_pipeline


def test_the_answers_that_a_repair_is_compared_with_cost_tokens(tmp_path: Path) -> None:
    stage = {"kind": "repair", "policy": "x", "sets": {"held": "held.jsonl"}}
    found = open_pipeline(tmp_path, {"r": stage})
    folder = found.stages["r"].folder
    protocol = Protocol(kind=ProtocolKind.REPAIR, temperature=1.0, rounds=2)
    write_evaluation(folder.output, {"held": {"t": [RIGHT]}}, protocol=protocol)
    rounds = [RoundRecord(outcome=WRONG, pass_ratio=0.0, num_tokens=60)]
    rounds.append(RoundRecord(outcome=RIGHT, pass_ratio=1.0, num_tokens=40))
    control = (RoundRecord(outcome=WRONG, pass_ratio=0.0, num_tokens=41),)
    turns = (("a", "feedback"), ("b", ""))
    sample = make_sample("t", 0, RIGHT, rounds=(*rounds,), control=control, turns=turns)
    output = folder.output / "held"
    (output / "samples.jsonl").write_text(sample.model_dump_json() + "\n")
    stored = read_evaluation(folder.output)
    metrics = measure(stored.sets["held"], stored.record.protocol)
    (output / "metrics.json").write_text(metrics.model_dump_json())
    assert metrics.overall.repair is not None
    assert metrics.overall.repair.control_tokens == 60 + 41

    costs = costs_of(found.stages["r"].stage, folder, found.config)
    assert costs.tokens == 100 + 41
