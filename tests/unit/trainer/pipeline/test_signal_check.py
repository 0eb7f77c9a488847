"""GRPO is refused where a sample shows nothing to learn; the sample is taken once per run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import GroupRequest, PolicyVersion, ScoredGroup
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.data.dataset import Dataset
from assay_trainer.data.run_data import RunSet
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.run_sets import RunSets
from assay_trainer.pipeline.signal_check import check_signal
from assay_trainer.rollouts.set_aside import SetAside
from assay_trainer.service.record import create_run, open_run
from assay_trainer.stop import Stop
from tests.support.fakes import POLICY, make_scored_group, make_task

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
WRONG, RIGHT, MIXED = (0.0,) * 4, (1.0,) * 4, (0.0, 1.0, 0.0, 0.0)
Rewards = Callable[[int], tuple[float, ...]]


class SampledParts:
    """Stands for `Parts`: groups come back at once, with the rewards of their number."""

    def __init__(self, run: RunContext, rewards: Rewards, num_tasks: int = 400) -> None:
        tasks = [make_task(f"t{number}") for number in range(num_tasks)]
        train = RunSet(Dataset(tasks), SetAside("training", num_tasks, 0.05, lambda _: None))
        self.run, self.sets = run, RunSets(train, train, train)
        self.rewards = rewards
        self.requests: list[GroupRequest] = []
        self.waiting: list[ScoredGroup] = []

    @property
    def num_in_flight(self) -> int:
        return len(self.waiting)

    def dispatcher(self, timeout_s: float, attempts: int) -> "SampledParts":
        return self

    def send(self, request: GroupRequest) -> None:
        values = self.rewards(len(self.requests))
        self.waiting.append(make_scored_group(request.key, *values, task=request.task))
        self.requests.append(request)

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        waiting, self.waiting = self.waiting, []
        return waiting

    def serve(self, policy: object) -> PolicyVersion:
        return POLICY

    def while_waiting(self) -> None: ...


def begin(path: Path, **check: object) -> RunContext:
    """Create a run, or resume it."""
    values = yaml.safe_load(DEMO.read_text())
    values["grpo"] |= {"group_size": 4} | check
    config = RunConfig.model_validate(values)
    folder = open_run(path)[0] if path.exists() else create_run(path, config)
    return RunContext(folder, config, ServiceSettings(), Stop(), Ranks())


def check(parts: SampledParts) -> None:
    grpo = parts.run.config.grpo
    assert grpo is not None
    policy: Any = (None, None)  # nothing is sampled with it
    check_signal(parts, policy, grpo)  # type: ignore[arg-type]  # of the same shape


def checked(run: RunContext) -> list[dict[str, Any]]:
    return [event.data for event in run.folder.read_events() if event.kind == "signal_checked"]


def test_a_policy_that_solves_nothing_is_refused_also_after_a_resume(tmp_path: Path) -> None:
    parts = SampledParts(begin(tmp_path / "run"), lambda number: WRONG)
    told = r"data.train: 0 of 192 sampled groups have unequal rewards, at most 2\.0% .*easier tasks"
    with pytest.raises(ConfigError, match=told):
        check(parts)
    assert len(parts.requests) == 192
    assert len({request.key for request in parts.requests}) == 192
    (event,) = checked(parts.run)
    assert event["num_with_signal"] == 0
    assert event["share"]["high"] < 0.02
    assert event == json.loads((tmp_path / "run" / "signal.json").read_text())

    again = SampledParts(begin(tmp_path / "run"), lambda number: MIXED)
    with pytest.raises(ConfigError, match=told):
        check(again)
    assert again.requests == [], "the sample is not taken again"
    assert len(checked(again.run)) == 1


def test_a_policy_that_solves_all_is_refused_after_the_first_groups(tmp_path: Path) -> None:
    parts = SampledParts(begin(tmp_path / "run"), lambda number: RIGHT if number else MIXED)
    with pytest.raises(ConfigError, match=r"97\.7% of the sampled answers pass.*harder tasks"):
        check(parts)
    assert len(parts.requests) == 32


@pytest.mark.parametrize(("first", "num_played"), [(0, 32), (31, 32), (40, 64), (191, 192)])
def test_one_group_with_signal_lets_grpo_begin(tmp_path: Path, first: int, num_played: int) -> None:
    parts = SampledParts(begin(tmp_path / "run"), lambda n: MIXED if n == first else WRONG)
    check(parts)
    assert len(parts.requests) == num_played
    (event,) = checked(parts.run)
    assert event["num_groups"] == num_played
    assert event["num_with_signal"] == 1


def test_the_run_file_may_say_otherwise(tmp_path: Path) -> None:
    relaxed = begin(tmp_path / "relaxed", signal_check={"num_groups": 8, "required": False})
    check(SampledParts(relaxed, lambda number: WRONG))
    assert checked(relaxed)[0]["num_with_signal"] == 0
    parts = SampledParts(begin(tmp_path / "none", signal_check=None), lambda number: WRONG)
    check(parts)
    assert parts.requests == []
    assert checked(parts.run) == []


def test_few_tasks_are_sampled_again_with_other_seeds(tmp_path: Path) -> None:
    parts = SampledParts(begin(tmp_path / "run"), lambda number: WRONG, num_tasks=20)
    with pytest.raises(ConfigError, match="0 of 192"):
        check(parts)
    drawn = {(request.task.id, request.sampling.seed) for request in parts.requests}
    assert len(drawn) == 192
