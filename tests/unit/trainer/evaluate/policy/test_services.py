"""Services that a command starts for itself."""

import asyncio
import math
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from assay_shared.clients import RewardClient
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.evaluate.policy.services import (
    check_rubrics,
    own_services,
    start_engine,
    with_reward,
)
from tests.support.fakes import make_task
from tests.support.policies import make_policy_folder

NOWHERE = ServiceSettings(reward_url="http://127.0.0.1:9")


@pytest.mark.slow
def test_services_of_a_command_end_with_it() -> None:
    async def health(settings: ServiceSettings) -> object:
        async with RewardClient.from_settings(settings) as client:
            return (await client.health())["service"]

    with own_services() as own:
        settings, started = with_reward(own, NOWHERE)
        assert started == ["sandbox", "judge", "reward"]
        assert asyncio.run(health(settings)) == "reward"
        check_rubrics({"task.rubric": [make_task()]}, settings)
        with pytest.raises(InvalidInput, match="task.rubric: t: there is no rubric 'none'"):
            check_rubrics({"task.rubric": [make_task(rubric="none")]}, settings)
        assert with_reward(own, settings) == (settings, [])
        assert len(own.processes) == 3
    assert all(process.poll() is not None for process in own.processes)


@pytest.mark.slow
def test_an_engine_that_does_not_start_is_told_with_the_cause(tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    tensors["model.norm.weight"].fill_(math.nan)
    save_file(tensors, file, metadata={"format": "pt"})
    with (
        own_services() as own,
        pytest.raises(ConfigError, match=r"inference: .*model\.norm\.weight has entries that are"),
    ):
        start_engine(own, tmp_path / "m", NOWHERE)
