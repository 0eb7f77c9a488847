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
ONE_TOKEN = "grpo.max_tokens=1"


def staged(**until: int) -> str:
    """A change of the demo that gives it a curriculum of one stage."""
    ends = ", ".join(f"{name}: {value}" for name, value in until.items())
    return f"curriculum={{stages: [{{name: easy, until: {{pass_rate: 0.5, {ends}}}}}]}}"


def pooled(least_samples: int) -> str:
    """A change of the demo that gives it a stage of two steps with a pool."""
    pool = f"pool: {{least_samples: {least_samples}}}"
    return f"curriculum={{stages: [{{name: easy, steps: 2}}], {pool}}}"


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
    "a clip in a stage of one step": (
        ("grpo.steps=1", "grpo.clip_high=0.3"),
        "grpo.clip_high",
        "a stage of one step has no older weights, and one update leaves the ratio at 1",
        ("grpo.steps=2",),
    ),
    "the deviation of a batch of one group": (
        ("grpo.groups_per_step=1", "grpo.normalise=batch"),
        "grpo.normalise",
        "normalise batch is group if a step learns one group",
        ("grpo.groups_per_step=2",),
    ),
    "a baseline in a batch of one group": (
        ("grpo.groups_per_step=1", "grpo.normalise=reinforce_pp_baseline"),
        "grpo.normalise",
        "the batch is that group",
        ("grpo.groups_per_step=2",),
    ),
    "an average of single tokens": (
        (ONE_TOKEN, "grpo.average=constant"),
        "grpo.average",
        "with max_tokens 1 every answer is one token",
        ("grpo.max_tokens=2",),
    ),
    "a ratio of sequences of a token": (
        (ONE_TOKEN, "grpo.loss=gspo"),
        "grpo.loss",
        "loss gspo is dapo",
        ("grpo.max_tokens=2",),
    ),
    "the KL to come after the only token": (
        (ONE_TOKEN, "grpo.kl_weight=0.1", "grpo.kl_estimator=k1"),
        "grpo.kl_estimator",
        "kl_estimator k1 is k3",
        ("grpo.max_tokens=2",),
    ),
    "an estimator with the default's gradient": (
        ("grpo.kl_weight=0.1", "grpo.kl_estimator=k2"),
        "grpo.kl_estimator",
        "every token has the same gradient",
        ("grpo.kl_estimator=k1",),
    ),
    "staleness in one step": (
        ("grpo.steps=1", "grpo.max_staleness=5"),
        "grpo.max_staleness",
        "cannot act in one step",
        ("grpo.steps=3",),
    ),
    "a limit that no token reaches": (
        ("grpo.steps=5", "grpo.hard_staleness=4"),
        "grpo.hard_staleness",
        "no token can be more than 4 versions old",
        ("grpo.steps=6",),
    ),
    "a higher limit where nothing is sampled ahead": (
        (ON_POLICY, "grpo.hard_staleness=20"),
        "grpo.hard_staleness",
        "with max_staleness 0 no groups are sampled ahead",
        ("grpo.max_staleness=1",),
    ),
    **{
        f"{kind} on policy": (
            (ON_POLICY, f"grpo.correction={kind}"),
            "grpo.correction",
            f"{kind} cannot act: all tokens are of the weights",
            ("grpo.max_staleness=1",),
        )
        for kind in ("tis", "mis", "icepop", "decoupled", "off_policy_mask")
    },
    "a correction in a stage of one step": (
        ("grpo.steps=1", "grpo.correction=tis"),
        "grpo.correction",
        "a stage of one step has no older weights",
        ("grpo.steps=2",),
    ),
    "a pass rate that is never measured": (
        (staged(every=5, min_steps=1, max_steps=3),),
        "curriculum.stages easy.until.pass_rate",
        "it is first measured after 5 steps",
        (staged(every=2, min_steps=1, max_steps=3),),
    ),
    "a pass rate between its measurements": (
        (staged(every=5, min_steps=6, max_steps=10),),
        "curriculum.stages easy.until.pass_rate",
        "it is first measured after 10 steps",
        (staged(every=5, min_steps=6, max_steps=11),),
    ),
    "a pass rate of a stage of a known length": (
        (staged(every=5, min_steps=10, max_steps=10),),
        "curriculum.stages easy.until.pass_rate",
        "the stage ends with 10 anyway",
        (staged(every=5, min_steps=10, max_steps=11),),
    ),
    "mistakes of tasks that have none": (
        ("data.train={kind: jsonl, path: a.jsonl}", "sft={steps: 1, mistake_rate: 0.5}"),
        "sft.mistake_rate",
        "tasks of kind jsonl have no documented mistakes",
        ("data.train={kind: generated, num_tasks: 60}",),
    ),
    "a pool that waits for more samples than there are": (
        (
            "grpo.steps=2",
            "grpo.max_groups_per_step=8",
            "grpo.groups_per_step=8",
            "grpo.group_size=4",
            pooled(65),
        ),
        "curriculum.pool.least_samples",
        "the 2 steps of the stages have at most 64 of all tasks",
        (pooled(64),),
    ),
    "dropout without given rows": (
        ("policy={folder: a, lora: {dropout: 0.1}}", "sft=null"),
        "policy.lora.dropout",
        "DPO and GRPO take none",
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


#: Changes that look alike and can act.
ACTIVE = {
    "a clip over answers continued under new weights": (
        ON_POLICY,
        "grpo.sync=continue",
        "grpo.clip_high=0.5",
    ),
    "a correction of answers continued under new weights": (
        ON_POLICY,
        "grpo.sync=continue",
        "grpo.correction=tis",
    ),
    "rounding that adds up over an answer": (ON_POLICY, "grpo.correction=sequence_mask"),
    "a correction with several updates": (
        ON_POLICY,
        "grpo.correction=tis",
        "grpo.updates_per_step=2",
    ),
    "components of one group": ("grpo.groups_per_step=1", "grpo.normalise=components"),
    "no deviation of one group": ("grpo.groups_per_step=1", "grpo.normalise=none"),
    "an answer of several turns, of a token each": (
        ONE_TOKEN,
        "grpo.average=constant",
        "data.train={kind: jsonl, path: tasks.jsonl}",
        "sft.mistake_rate=0.0",
    ),
    "the loss's own average": ("grpo.loss=grpo", "grpo.average=sequence"),
    "its own average of single tokens": (ONE_TOKEN, "grpo.average=token"),
    "staleness in two steps, with its correction": ("grpo.steps=2", "grpo.max_staleness=2"),
    "the limit that a staleness needs": (
        "grpo.steps=5",
        "grpo.max_staleness=10",
        "grpo.hard_staleness=10",
    ),
    "a lower limit": ("grpo.steps=4", "grpo.hard_staleness=2"),
    "a pass rate measured once": (staged(every=5, min_steps=1, max_steps=6),),
}


@pytest.mark.parametrize("name", ACTIVE)
def test_what_can_act_is_not_refused(name: str) -> None:
    assert inert_switches(configured(*ACTIVE[name])) == []
