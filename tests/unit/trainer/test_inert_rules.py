"""A switch that cannot act is refused with the reason, and what makes it act is right."""

from pathlib import Path

import pytest

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import load_config
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.inert_rules import inert_switches, refuse_inert

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
ON_POLICY = "grpo.max_staleness=0"

#: Changes of the demo, the field that cannot act, the reason, and changes that let it act.
INERT = {
    "a lower bound with cispo": (
        ("grpo.loss=cispo", "grpo.clip_low=0.1"),
        "grpo.clip_low",
        "does nothing with loss cispo",
        ("grpo.loss=dapo",),
    ),
    "a clip with reinforce": (
        ("grpo.loss=reinforce", "grpo.clip_high=0.5"),
        "grpo.clip_high",
        "does nothing with loss reinforce",
        ("grpo.loss=gspo",),
    ),
    "a distance without dgro": (
        ("grpo.distance_weight=1.0",),
        "grpo.distance_weight",
        "does nothing with loss dapo",
        ("grpo.loss=dgro",),
    ),
    "a clip with a correction": (
        ("grpo.correction=tis", "grpo.clip_high=0.5"),
        "grpo.clip_high",
        "the policy at the step's start, and one update leaves the ratio at 1",
        ("grpo.updates_per_step=2",),
    ),
    "a dual clip with a correction": (
        ("grpo.correction=mis", "grpo.dual_clip=3.0"),
        "grpo.dual_clip",
        "one update leaves the ratio at 1",
        ("grpo.correction=null",),
    ),
    "a clip on policy": (
        (ON_POLICY, "grpo.clip_low=0.1"),
        "grpo.clip_low",
        "max_staleness is 0",
        ("grpo.max_staleness=1",),
    ),
    "a clip of cispo on policy": (
        (ON_POLICY, "grpo.loss=cispo", "grpo.clip_high=4.0"),
        "grpo.clip_high",
        "leaves the ratio at 1",
        ("grpo.updates_per_step=4",),
    ),
    "a distance on policy": (
        (ON_POLICY, "grpo.loss=dgro", "grpo.distance_weight=1.0"),
        "grpo.distance_weight",
        "leaves the ratio at 1",
        ("grpo.updates_per_step=2",),
    ),
    "an estimator without a weight": (
        ("grpo.kl_estimator=k1",),
        "grpo.kl_estimator",
        "kl_weight is 0",
        ("grpo.kl_weight=0.1",),
    ),
    "a KL in a run of one update": (
        ("grpo.kl_weight=0.1", "grpo.steps=1"),
        "grpo.kl_weight",
        "the policy is still the reference",
        ("grpo.updates_per_step=2",),
    ),
    "a mask below 0": (
        ("grpo.correction={kind: off_policy_mask, low: 0.0}",),
        "grpo.correction",
        "no weight is below low 0",
        ("grpo.correction={kind: off_policy_mask, low: 0.5}",),
    ),
    "dropout without given rows": (
        ("policy={folder: a, lora: {dropout: 0.1}}", "sft=null"),
        "policy.lora.dropout",
        "GRPO takes none",
        ("sft={steps: 1}",),
    ),
}


def configured(*changes: str) -> RunConfig:
    return load_config(RunConfig, DEMO, changes)


@pytest.mark.parametrize("name", INERT)
def test_what_cannot_act_is_refused_and_its_remedy_makes_it_act(name: str) -> None:
    changes, field, reason, remedied = INERT[name]
    (found,) = inert_switches(configured(*changes))
    assert (found.field, reason in found.reason) == (field, True), found
    with pytest.raises(ConfigError) as refused:
        refuse_inert(configured(*changes))
    assert refused.value.field == field
    assert found.remedy in (refused.value.hint or "")
    assert "grpo.allow_inert: true" in (refused.value.hint or "")
    refuse_inert(configured(*changes, "grpo.allow_inert=true"))
    refuse_inert(configured(*changes, *remedied))


def test_all_that_cannot_act_are_named_at_once() -> None:
    changes = ("grpo.loss=reinforce", "grpo.clip_low=0.1", "grpo.dual_clip=3.0")
    with pytest.raises(ConfigError, match="clip_low does nothing .*; nor can grpo.dual_clip"):
        refuse_inert(configured(*changes))


def test_defaults_are_never_refused() -> None:
    for loss in ("grpo", "dapo", "dr_grpo", "cispo", "gspo", "dgro", "reinforce"):
        for staleness in (0, 1, 4):
            config = configured(f"grpo.loss={loss}", f"grpo.max_staleness={staleness}")
            assert inert_switches(config) == []
