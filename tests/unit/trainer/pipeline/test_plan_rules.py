"""Each rule of a plan finds its mistake by the field's name, and nothing in good settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import DatasetError
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.network.memory import MemoryEstimate
from assay_trainer.pipeline.plan_rules import (
    Finding,
    PolicySizes,
    SampleFacts,
    check_memory,
    check_sample,
    check_settings,
    check_sizes,
    check_updates,
)
from assay_trainer.pipeline.plan_stages import StagePlan

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
GOOD = SampleFacts(
    share_with_signal=0.5, truncated_share=0.1, num_failed=0, num_groups=32, is_final=True
)


#: Preferences for the demo's policy.
DPO = {
    "data": {"kind": "jsonl", "path": "pairs.jsonl"},
    "steps": 100,
    "warmup_steps": 5,
    "learning_rate": 1e-5,
}


def needs(stage: str, num_updates: int, num_rows: int, num_left_out: int = 0) -> StagePlan:
    """A stage's plan with an estimate that no rule reads."""
    estimate = MemoryEstimate(
        weights=1,
        gradients=1,
        optimiser=1,
        publication=0,
        checkpoint=0,
        reference=0,
        gathered=0,
        activations=1,
        logits=1,
    )
    return StagePlan(
        stage=stage,
        num_updates=num_updates,
        num_rows=num_rows,
        num_left_out=num_left_out,
        tokens=1,
        estimate=estimate,
    )


def config_of(**changes: Any) -> RunConfig:
    """The demo's configuration with `section__key` replaced."""
    values = yaml.safe_load(DEMO.read_text())
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            values[section][key] = value
        else:
            values[section] = value
    return RunConfig.model_validate(values)


def named(found: list[Finding]) -> list[str]:
    return [f"{one.field}: {one.message}" for one in found]


def test_good_settings_have_no_finding() -> None:
    config = config_of()
    assert config.grpo is not None
    assert check_settings(config) == []
    assert check_sizes(config, PolicySizes(context=256, longest_prompt=100)) == []
    assert check_sample(config.grpo, GOOD) == []
    assert check_memory(10, 10) == check_memory(10, None) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sft": None, "grpo": None}, "grpo: there is no sft, dpo or grpo"),
        ({"grpo__checkpoint_every": 61}, "grpo.checkpoint_every: checkpoints are never written"),
        ({"sft__checkpoint_every": 501}, "sft.checkpoint_every: checkpoints are never written"),
        ({"grpo__warmup_steps": 60}, "grpo.warmup_steps: the learning rate grows over 60"),
        ({"sft__warmup_steps": 500}, "sft.warmup_steps: the learning rate grows over 500"),
        ({"grpo__learning_rate": 0.1}, "grpo.learning_rate: 0.1 is outside of the usual 1e-05"),
        ({"sft__learning_rate": 1e-6}, "sft.learning_rate: 1e-06 is outside"),
        (
            {"policy": {"folder": "a"}, "sft": None},
            "grpo.learning_rate: 0.0003 is outside of the usual 1e-07 to 0.0001",
        ),
        (
            {"grpo__max_staleness": 8, "grpo__steps": 8, "grpo__checkpoint_every": 2},
            "grpo.max_staleness: 8 versions cannot act in 8 steps",
        ),
        ({"grpo__group_size": 2}, "grpo.group_size: groups of 2 compare few"),
        (
            {"policy": {"folder": "a", "lora": {}}, "sft": None, "grpo__learning_rate": 0.01},
            "grpo.learning_rate: 0.01 is outside of the usual 1e-06 to 0.001 for an adapter",
        ),
        ({"dpo": DPO | {"beta": 5}}, "dpo.beta: 5 is outside"),
        ({"dpo": DPO | {"learning_rate": 0.01}}, "dpo.learning_rate: 0.01 is outside"),
        ({"dpo": DPO | {"warmup_steps": 100}}, "dpo.warmup_steps: the learning rate grows"),
        ({"grpo__temperature": 0.2}, "grpo.temperature: 0.2 is outside"),
    ],
)
def test_a_setting_that_is_rarely_meant_is_told(changes: dict[str, Any], told: str) -> None:
    found = check_settings(config_of(**changes))
    assert len(found) == 1, named(found)
    assert named(found)[0].startswith(told)
    assert not found[0].refused


def test_a_switch_that_cannot_act_is_refused_unless_the_file_allows_it() -> None:
    changes = {"grpo__loss": "cispo", "grpo__clip_low": 0.1}
    (found,) = check_settings(config_of(**changes))
    assert found.refused
    assert named([found])[0].startswith(
        "grpo.clip_low: clip_low does nothing with loss cispo (it acts with loss grpo, dapo"
    )
    (allowed,) = check_settings(config_of(**changes, grpo__allow_inert=True))
    assert not allowed.refused


def test_lengths_are_compared_with_the_context_and_the_pack() -> None:
    config = config_of(grpo__max_tokens=300, evaluation__max_tokens=256, grpo__tokens_per_pack=350)
    found = check_sizes(config, PolicySizes(context=256, longest_prompt=51))
    assert [(one.field, one.refused) for one in found] == [
        ("grpo.tokens_per_pack", False),
        ("evaluation.max_tokens", True),
        ("grpo.max_tokens", True),
    ]
    assert "the longest row's 351" in found[0].message
    assert check_sizes(config, PolicySizes(context=None, longest_prompt=50)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"share_with_signal": 0.25}, "grpo.max_groups_per_step: 48 groups give about 12.0"),
        ({"truncated_share": 0.75}, "grpo.max_tokens: 75% of the sampled answers are cut off"),
        ({"num_failed": 3}, "grpo.group_attempts: 3 of 32 sampled groups"),
    ],
)
def test_the_sample_tells_its_own(changes: dict[str, Any], told: str) -> None:
    grpo = config_of().grpo
    assert grpo is not None
    facts = SampleFacts(**(vars(GOOD) | changes))
    (found,) = check_sample(grpo, facts)
    assert named([found])[0].startswith(told)
    before_sft = SampleFacts(**(vars(facts) | {"is_final": False}))
    assert bool(check_sample(grpo, before_sft)) == bool(facts.num_failed)


def test_steps_with_flat_groups_are_not_told_to_be_smaller() -> None:
    """Flat groups have a place in a step there, so it is as large as asked."""
    grpo = config_of(grpo__replace_flat=False).grpo
    assert grpo is not None
    assert check_sample(grpo, SampleFacts(**(vars(GOOD) | {"share_with_signal": 0.25}))) == []


def test_a_card_that_is_too_small_is_told() -> None:
    (found,) = check_memory(3 * 2**30, 2 * 2**30)
    assert "about 3.0 GiB on a card of 2.0 GiB" in found.message


def test_an_error_is_a_finding_that_refuses() -> None:
    found = Finding.of(DatasetError("no row", field="data.train", hint="add one"))
    assert found == Finding(field="data.train", message="no row (add one)", refused=True)


def test_an_adapters_usual_rates_are_no_mistake() -> None:
    policy = {"folder": "a", "lora": {"rank": 8}}
    assert check_settings(config_of(policy=policy, sft=None, grpo__learning_rate=1e-4)) == []
    assert check_settings(config_of(policy=policy, sft__learning_rate=2e-4)) == []


def test_epochs_are_judged_by_their_updates() -> None:
    """70 rows in batches of 64 are two updates an epoch."""
    config = config_of(sft__steps=None, sft__epochs=3, sft__warmup_steps=5, dpo=DPO)
    assert check_settings(config) == []
    assert named(check_updates(config, needs("sft", 6, 70))) == [
        "sft.checkpoint_every: checkpoints are never written: every 100 steps is more than 6 "
        "steps, so a resume begins the stage again",
    ]
    found = check_updates(config, needs("sft", 3, 20))
    assert [one.field for one in found] == [
        "sft.batch_size",
        "sft.checkpoint_every",
        "sft.warmup_steps",
    ]
    assert "the 20 rows to train on" in found[0].message
    assert check_updates(config, needs("dpo", 100, 90)) == []
    (left,) = check_updates(config, needs("dpo", 100, 90, num_left_out=10))
    assert named([left]) == ["dpo.max_length: 10 of 100 pairs are longer and are left out"]


def test_memory_of_given_rows_is_told_by_their_own_field() -> None:
    (found,) = check_memory(3 * 2**30, 2 * 2**30, "sft")
    assert found.field == "sft.micro_batch_size"
