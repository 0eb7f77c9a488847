"""Makes run folders with stored groups, by the trainer's own writers.

`python -m tests.support.browser.stored_runs FOLDER NUM_SAMPLES` makes a run of that size.
"""

import random
import sys
from pathlib import Path

from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.run_file import load_config
from assay_shared.types import (
    Completion,
    Failure,
    FailureClass,
    FinishReason,
    Group,
    PolicyVersion,
    Reward,
    RewardComponent,
    Rollout,
    Scored,
    ScoredGroup,
    Status,
    Unscored,
)
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.rollouts.rollout_log import append_discarded, append_rollout
from assay_trainer.service.record import create_run
from tests.support.fakes import make_task

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
_MOST_BYTES = 10**12
_WORDS = [
    "def",
    "solve",
    "return",
    "for",
    "in",
    "range",
    "len",
    "list",
    "sum",
    "x",
    "y",
    "total",
    "if",
    "else",
    "lambda",
    "sorted",
    "map",
    "int",
]


def make_group(
    step: int, number: int, *outcomes: str, words: int = 40, seed: int = 0, **task: object
) -> ScoredGroup:
    """Return a group; an outcome is a sandbox status, or a failure class after `failed:`."""
    source = random.Random(seed * 1_000_003 + number)
    rollouts = [_rollout(source, step, words) for _ in outcomes]
    tags = {"domain": ("code", "lookup")[number % 2], "family": f"f{number % 5}"}
    name = f"family-{number % 5}/{number}"
    return ScoredGroup(
        group=Group(
            key=f"run/{number}/{name}/v{step}/code.dense",
            task=make_task(name, **({"prompt": f"Write task {number}.", "tags": tags} | task)),
            prompt_token_ids=tuple(range(20)),
            rollouts=tuple(rollouts),
        ),
        rewards=tuple(_reward(one) for one in outcomes),
        scorer="code.dense@1",
        worker="w1",
        generate_time_s=0.5,
        score_time_s=0.25,
    )


def _rollout(source: random.Random, step: int, words: int) -> Rollout:
    text = " ".join(source.choices(_WORDS, k=words))
    return Rollout.of(
        Completion(
            token_ids=tuple(source.randrange(500) for _ in range(words)),
            logprobs=tuple(-source.random() * 3 for _ in range(words)),
            text=text,
            finish_reason=FinishReason.STOP,
            policy=PolicyVersion(version=step, digest="d" * 64),
        )
    )


def _reward(outcome: str) -> Reward:
    if outcome.startswith("failed:"):
        return Unscored(
            failure=Failure(
                failure_class=FailureClass(outcome.removeprefix("failed:")),
                service="judge",
                message="no judge answered <b>in time</b>",
                retryable=True,
                attempts=3,
            )
        )
    value = 1.0 if outcome == Status.ACCEPTED else 0.25
    parts = (
        RewardComponent(name="tests", value=value, weight=0.8, detail="1 of 4 cases passed"),
        RewardComponent(name="length", value=0.5, weight=0.2, detail="40 tokens"),
    )
    return Scored(value=value, outcome=Status(outcome), components=parts)


def make_run(folder: Path) -> RunFolder:
    """Return a new run with the demo's configuration."""
    return create_run(folder, load_config(RunConfig, DEMO))


def keep(run: RunFolder, step: int, scored: ScoredGroup, reason: str = "") -> None:
    """Store a group as the trainer does; with a reason as a discarded one."""
    if reason:
        append_discarded(run.rollouts, scored, step, reason, _MOST_BYTES)
    else:
        append_rollout(run.rollouts, scored, step, _MOST_BYTES)


def fill(run: RunFolder, num_samples: int, groups_per_step: int = 16) -> None:
    """Store groups of 8 samples, one of eight of them discarded."""
    for number in range(num_samples // 8):
        step = 1 + number // groups_per_step
        outcomes = ["accepted", "wrong_answer"] * 4
        if number % 50 == 7:
            outcomes[3] = "failed:judge"
        if number % 8 == 5:
            keep(run, step, make_group(step, number, *["wrong_answer"] * 8), "no_signal")
        else:
            keep(run, step, make_group(step, number, *outcomes))


if __name__ == "__main__":
    fill(make_run(Path(sys.argv[1])), int(sys.argv[2]))
