"""Each rule of a plan finds its mistake by the field's name, and nothing in good settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import DatasetError
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.pipeline.plan_rules import (
    Finding,
    PolicySizes,
    SampleFacts,
    check_memory,
    check_sample,
    check_settings,
    check_sizes,
)

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
GOOD = SampleFacts(
    share_with_signal=0.5, truncated_share=0.1, num_failed=0, num_groups=32, is_final=True
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
        ({"grpo__temperature": 0.2}, "grpo.temperature: 0.2 is outside"),
    ],
)
def test_a_setting_that_is_rarely_meant_is_told(changes: dict[str, Any], told: str) -> None:
    found = check_settings(config_of(**changes))
    assert len(found) == 1, named(found)
    assert named(found)[0].startswith(told)
    assert not found[0].refused


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


def test_a_card_that_is_too_small_is_told() -> None:
    (found,) = check_memory(3 * 2**30, 2 * 2**30)
    assert "about 3.0 GiB on a card of 2.0 GiB" in found.message


def test_an_error_is_a_finding_that_refuses() -> None:
    found = Finding.of(DatasetError("no row", field="data.train", hint="add one"))
    assert found == Finding(field="data.train", message="no row (add one)", refused=True)
