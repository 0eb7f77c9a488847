"""The data stages of a run, against a real reward service."""

import json
from pathlib import Path

import pytest
import yaml

from assay_reward.app import create_app
from assay_reward.settings import RewardSettings
from assay_shared.errors import ConfigError, RoleError
from assay_shared.runs.run_folder import Event
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import PromptFormat
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.network.model import train_tokenizer
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.run_sets import (
    check_template,
    held_out_stages,
    open_sets,
    training_stages,
    validate_rewards,
)
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop
from tests.conftest import Serve
from tests.support.fakes import make_task
from tests.support.policies import TEXTS

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
RUBRIC = """
name: careful
description: Two parts, each to be normalised alone.
recommend: {normalise: components}
components:
  - {verifier: math, weight: 0.5}
  - {verifier: exact_match, weight: 0.5}
"""


@pytest.mark.slow
@pytest.mark.parametrize("used", ["group", "components"])
def test_a_run_tells_which_rubric_recommends_another_normalisation(
    serve: Serve, tmp_path: Path, used: str
) -> None:
    (tmp_path / "careful.yaml").write_text(RUBRIC)
    url = serve(create_app(RewardSettings(reward_rubrics=tmp_path / "careful.yaml")))
    sources = {}
    for name, kinds in (("train", range(8)), ("held_out", range(8, 12))):
        tasks = [
            make_task(
                f"sum-{n}", rubric="careful", gold=str(n), prompt=f"What is {n} + 0?", tests=()
            )
            for n in kinds
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(task.model_dump_json() + "\n" for task in tasks))
        sources[name] = {"kind": "jsonl", "path": str(path)}
    demo = yaml.safe_load(DEMO.read_text())
    demo["data"] = {**sources, "validation": {"sample": 2, "max_bad_share": 1.0}}
    demo["grpo"]["normalise"] = used
    config = RunConfig.model_validate(demo)
    told: list[Event] = []
    run = RunContext(
        create_run(tmp_path / "run", config),
        config,
        ServiceSettings(reward_url=url),
        Stop(),
        Ranks(),
        told.append,
    )
    validate_rewards(run, open_sets(run))
    differing = [event.data for event in told if event.kind == "normalise_differs"]
    expected = {"rubric": "careful", "recommended": "components", "used": "group"}
    assert differing == ([expected] if used == "group" else []), json.dumps(differing)


def run_of_stages(
    folder: Path, role: str, *stages: dict[str, object], steps: int = 50
) -> RunContext:
    """Return a run whose training tasks are easy and hard, and whose held-out ones are easy."""
    sources = {}
    for name, own_role, levels in (
        ("train", "train", ("easy", "hard")),
        ("held_out", role, ("easy",)),
    ):
        tasks = [
            make_task(f"{name}-{level}{at}", role=own_role, tags={"difficulty": level})
            for level in levels
            for at in range(4)
        ]
        path = folder / f"{name}.jsonl"
        path.write_text("".join(task.model_dump_json() + "\n" for task in tasks))
        sources[name] = {"kind": "jsonl", "path": str(path)}
    demo = yaml.safe_load(DEMO.read_text())
    demo["data"] = sources
    demo["grpo"] |= {"steps": steps}
    demo["curriculum"] = {"stages": list(stages)}
    config = RunConfig.model_validate(demo)
    folder_of_run = create_run(folder / "run", config)
    return RunContext(folder_of_run, config, ServiceSettings(), Stop(), Ranks())


EASY: dict[str, object] = {"name": "easy", "where": {"difficulty": "easy"}}
UNTIL = {"pass_rate": 0.5, "min_steps": 1, "max_steps": 9}


def test_stages_are_checked_before_anything_is_trained(tmp_path: Path) -> None:
    run = run_of_stages(tmp_path, "test", EASY | {"steps": 9})
    sets = open_sets(run)
    assert {task.tags["difficulty"] for task in training_stages(run, sets)[0].tasks} == {"easy"}
    assert len(held_out_stages(run, sets)[0].tasks) == 4
    (tmp_path / "other").mkdir()
    validated = run_of_stages(tmp_path / "other", "validation", EASY | {"until": UNTIL})
    assert len(held_out_stages(validated, open_sets(validated))[0].tasks) == 4


@pytest.mark.parametrize(
    ("role", "stage", "steps", "error", "message"),
    [
        ("test", {"until": UNTIL}, 50, RoleError, "rows for tests alone: they cannot end a stage"),
        ("test", {"steps": 9}, 8, ConfigError, "have up to 9 steps, and GRPO ends after 8"),
        (
            "test",
            {"where": {"difficulty": "hard"}, "steps": 9},
            50,
            ConfigError,
            "no held-out task has difficulty: hard",
        ),
        (
            "test",
            {"where": {"difficulty": "medium"}, "steps": 9},
            50,
            ConfigError,
            "no training task has difficulty: medium",
        ),
    ],
)
def test_a_stage_that_cannot_be_trained_or_measured_is_refused(
    tmp_path: Path,
    role: str,
    stage: dict[str, object],
    steps: int,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        open_sets(run_of_stages(tmp_path, role, EASY | stage, steps=steps))


def test_chats_need_a_policy_with_a_chat_template(tmp_path: Path) -> None:
    run = run_of_stages(tmp_path, "test", EASY | {"steps": 9})
    sets, tokenizer = open_sets(run), train_tokenizer(TEXTS, 320)
    check_template(sets, tokenizer)
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match=r"^policy: .* no chat template, and task train-easy0"):
        check_template(sets, tokenizer)
    for one in (sets.train, sets.held_out):
        raw = {"prompt_format": PromptFormat.RAW}
        one.dataset.tasks[:] = [task.model_copy(update=raw) for task in one.dataset.tasks]
    check_template(sets, tokenizer)
