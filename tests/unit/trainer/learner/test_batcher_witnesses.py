"""Every field of the sampler changes some draws, and leaves those that it must leave."""

import pytest

from assay_shared.types import Normalisation
from assay_trainer.grpo_config import GRPOConfig
from tests.support.sampler_witnesses import SAMPLER_WITNESSES, SamplerWitness, learnt

#: Fields of the run file that decide which samples are learnt, and with which advantages.
SAMPLER_FIELDS = {
    "groups_per_step",
    "group_size",
    "max_groups_per_step",
    "replace_flat",
    "max_tokens",
    "stop",
    "temperature",
    "max_staleness",
    "hard_staleness",
    "overlong",
    "normalise",
}


def name_of(row: SamplerWitness) -> str:
    return f"{row.name}={row.value}"


@pytest.mark.parametrize("row", SAMPLER_WITNESSES, ids=name_of)
def test_a_field_of_the_sampler_changes_the_draws_on_which_it_acts(row: SamplerWitness) -> None:
    before = learnt(row.base, row.acts, 3)
    assert before
    assert learnt({**row.base, row.name: row.value}, row.acts, 3) != before


@pytest.mark.parametrize("row", SAMPLER_WITNESSES, ids=name_of)
def test_a_field_of_the_sampler_leaves_the_draws_on_which_it_is_idle(row: SamplerWitness) -> None:
    base = {**row.base, **row.idle_base}
    before = learnt(base, row.idle, row.idle_steps)
    assert learnt({**base, row.name: row.value}, row.idle, row.idle_steps) == before


def test_every_field_of_the_sampler_has_a_row() -> None:
    assert {row.name for row in SAMPLER_WITNESSES} == SAMPLER_FIELDS
    assert set(GRPOConfig.model_fields) >= SAMPLER_FIELDS
    shown = {row.value for row in SAMPLER_WITNESSES if row.name == "normalise"}
    assert shown == set(Normalisation) - {Normalisation.GROUP}
