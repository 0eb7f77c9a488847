"""A finished run in small: its first weights, its events, and stored groups of its first steps."""

from pathlib import Path
from typing import Any

import pytest

from assay_shared.runs.run_folder import RunFolder, write_json
from assay_shared.settings.run_file import parse_config
from assay_shared.types import FinishReason, PolicyVersion, Rollout, RolloutSpan, ScoredGroup
from assay_trainer.config import RunConfig
from assay_trainer.rollouts.rollout_log import append_rollout
from tests.support.fakes import make_scored_group
from tests.support.policies import make_policy_folder

STEPS = 3
_REWARDS = ((1.0, 0.0, 0.5, 0.0), (0.0, 1.0, 1.0, 0.25), (0.0, 0.0, 1.0, 0.0))
#: Groups without signal.
FLAT = ((0.0,) * 4,) * 3


def run_config(**grpo: Any) -> RunConfig:
    """A run file with these settings of GRPO."""
    own = {"steps": STEPS, "groups_per_step": 3, "group_size": 4, "max_tokens": 16} | grpo
    values = {
        "policy": {"new": {}},
        "data": {
            "train": {"kind": "generated", "num_tasks": 4},
            "held_out": {"kind": "generated", "num_tasks": 2},
        },
        "grpo": {"max_grad_norm": 1e6, "learning_rate": 1e-3, "warmup_steps": 0} | own,
    }
    return parse_config(RunConfig, values, source="a test")


def make_rollout(step: int, group: int, sample: int, *, equal: bool) -> Rollout:
    """An answer of some tokens under the version of its step."""
    length = 5 if equal else 3 + (2 * sample + group) % 5
    ids = tuple(20 + (11 * sample + 5 * group + 3 * at + step) % 200 for at in range(length))
    policy = PolicyVersion(version=step, digest=f"d{step}")
    return Rollout(
        token_ids=ids,
        logprobs=tuple(-5.5 - 0.2 * at for at in range(length)),
        text="the sum is 4",
        finish_reason=FinishReason.STOP,
        spans=(RolloutSpan(policy=policy, num_tokens=length),),
    )


def make_groups(
    step: int, *, equal: bool = False, rewards: tuple[tuple[float, ...], ...] = _REWARDS
) -> list[ScoredGroup]:
    """The groups of a step; with `equal`, all answers have one length."""
    found = []
    for number, values in enumerate(rewards):
        scored = make_scored_group(f"g{step}-{number}", *values)
        rollouts = tuple(make_rollout(step, number, at, equal=equal) for at in range(4))
        changes = {"prompt_token_ids": (11, 12, 13), "rollouts": rollouts}
        found.append(scored.model_copy(update={"group": scored.group.model_copy(update=changes)}))
    return found


def step_event(step: int, **changes: Any) -> dict[str, Any]:
    """The event of a step, as far as it is read here."""
    return {
        "step": step,
        "version": step,
        "reward": 0.4,
        "pass_rate": 0.3,
        "num_groups": 3,
        "num_played": 4,
        "num_without_signal": 0,
        "failures": {},
        "outcomes": {},
        "staleness_mean": 0.0,
        "groups_per_s": 1.0,
        "step_s": 1.0,
        "rollouts_s": 1.0,
        "publish_s": 0.1,
        "update_s": 0.1,
        "loss": 0.0,
        "grad_norm": 1.0,
        "entropy": 1.0,
        "length_mean": 5.0,
    } | changes


def make_run(
    folder: Path,
    *,
    equal: bool = False,
    rewards: tuple[tuple[float, ...], ...] = _REWARDS,
    **event: Any,
) -> RunFolder:
    """A run's folder with stored steps."""
    run = RunFolder.create(folder)
    write_json(run.config, {"config": run_config().model_dump(mode="json")})
    make_policy_folder(folder / "models" / "initial")
    for step in range(1, STEPS + 1):
        run.record("step", **step_event(step, **event))
        for group in make_groups(step, equal=equal, rewards=rewards):
            append_rollout(run.rollouts, group, step, 2**24)
    return run


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs") / "stored")


@pytest.fixture(scope="session")
def equal_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose answers all have one length."""
    return make_run(tmp_path_factory.mktemp("runs") / "equal", equal=True)
