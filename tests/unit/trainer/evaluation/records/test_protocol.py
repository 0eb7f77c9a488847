"""The digest of a protocol."""

from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind

#: Of the default protocol, before there was `repair`: stored results stay comparable.
_GREEDY = "59d0d93818130405a43e53b0bd894c1a0026a70eb9ad2f608742b3b484e237d0"


def test_the_fields_of_repair_are_in_no_other_digest() -> None:
    assert Protocol().digest == _GREEDY


def test_each_field_of_repair_is_in_its_digest() -> None:
    base = Protocol(kind=ProtocolKind.REPAIR, temperature=1.0, rounds=3)
    changes = ({"rounds": 2}, {"visible_tests": 0}, {"feedback_tokens": 200})
    digests = {base.digest, *(base.model_copy(update=one).digest for one in changes)}
    assert len(digests) == 4


def test_the_order_of_k_is_in_no_digest() -> None:
    sampled = {"kind": ProtocolKind.SAMPLED, "temperature": 1.0, "samples_per_task": 5}
    one, other = (Protocol.model_validate(sampled | {"k": k}) for k in ([5, 1, 5], [1, 5]))
    assert one.k == (1, 5)
    assert one.digest == other.digest
    assert one.digest != Protocol.model_validate(sampled | {"k": [5]}).digest
