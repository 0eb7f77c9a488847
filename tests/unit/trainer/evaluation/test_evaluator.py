"""What an evaluation takes for a sample of the weights that it measures."""

from assay_shared.types import PolicyVersion
from assay_trainer.evaluation.evaluator import only_of
from tests.support.fakes import POLICY, make_scored_group


def test_only_samples_of_the_measured_weights_count() -> None:
    scored = make_scored_group("g", 1.0, 0.0)
    assert only_of(POLICY, scored) is scored
    for other in (PolicyVersion(version=2, digest="d1"), PolicyVersion(version=1, digest="d2")):
        refused = only_of(other, scored)
        assert refused.rewards == ()
        assert refused.failure is not None
        message = f"sampled by version 1 where version {other.version} is measured"
        assert refused.failure.message == message
