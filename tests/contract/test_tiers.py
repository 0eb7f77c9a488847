"""Tiers of a run on real parts: SFT on a tiny policy, inference and reward over HTTP."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_shared.clients import InferenceClient
from assay_shared.errors import ConfigError, InvalidInput, RoleError
from assay_shared.runs.run_folder import Event
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import load_config
from assay_shared.types import PolicyVersion, Role, Task
from assay_trainer import config as trainer_config
from assay_trainer.config import LoRAConfig, RunConfig
from assay_trainer.evaluate.policy.checkpoints import servable_folder
from assay_trainer.evaluate.policy.places import find_policies
from assay_trainer.evaluation.best_checkpoint import read_best, write_best
from assay_trainer.evaluation.records.folder import read_evaluation
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.given_rows import run_sft
from assay_trainer.pipeline.policy import initial_policy, stage_model
from assay_trainer.pipeline.run_sets import open_sets
from assay_trainer.pipeline.tiers import Tiers
from assay_trainer.service.record import create_run, open_run
from assay_trainer.stop import Stop, Stopped
from tests.conftest import Serve
from tests.support.fakes import make_task
from tests.support.policies import TINY

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
GREEDY = {"max_tokens": 8}


@pytest.fixture(scope="module")
def services(serve_for_all: Serve) -> ServiceSettings:
    """The settings that lead to inference and reward; the tasks need no sandbox."""
    reward = serve_for_all(create_reward(RewardSettings()))
    inference = serve_for_all(create_inference(InferenceSettings(inference_weight_roots="/")))
    return ServiceSettings(reward_url=reward, inference_url=inference)


def write(path: Path, role: Role, number: int = 4) -> str:
    tasks = [
        make_task(f"{role}{i}", role=role, rubric="math", gold=str(i), tests=())
        for i in range(number)
    ]
    path.write_text("".join(f"{Task.model_dump_json(one)}\n" for one in tasks))
    return str(path)


def config_of(folder: Path, at: object = "checkpoints", role: Role = Role.VALIDATION) -> RunConfig:
    """Return a run with a tier at its checkpoints, and one at its end."""
    values = yaml.safe_load(DEMO.read_text())
    values["policy"] = {"new": TINY.model_dump()}
    values["data"]["train"]["num_tasks"] = 40
    valid = {"kind": "jsonl", "path": write(folder / "valid.jsonl", role)}
    held = {"kind": "jsonl", "path": write(folder / "held.jsonl", Role.TEST)}
    values["evaluation"] |= {
        "tiers": [
            {"name": "one", "sets": {"valid": valid}, "at": at, "protocol": GREEDY},
            {"name": "last", "sets": {"held": held}, "at": "end", "protocol": GREEDY},
        ],
        "best": {"set": "valid"} if at == "checkpoints" else None,
    }
    sft = {"steps": 6, "batch_size": 8, "checkpoint_every": 2, "warmup_steps": 0}
    return RunConfig.model_validate(values | {"sft": sft, "grpo": None})


@contextmanager
def in_run(
    folder: Path,
    services: ServiceSettings,
    on_event: Callable[[RunContext, Event], None] = lambda run, event: None,
) -> Iterator[tuple[RunContext, Tiers]]:
    stop = Stop()
    run: RunContext = RunContext(
        *open_run(folder), services, stop, Ranks(), lambda event: on_event(run, event)
    )
    with Tiers.begun(run) as tiers:
        yield run, tiers


def train(run: RunContext, tiers: Tiers) -> None:
    sets = open_sets(run)
    policy = stage_model(run, "initial", lambda: initial_policy(run, sets))
    assert run.config.sft is not None
    run_sft(run, sets, policy, run.config.sft, tiers)


def data_of(run: RunContext, kind: str) -> list[dict[str, object]]:
    return [event.data for event in run.folder.read_events() if event.kind == kind]  # type: ignore[misc]


@pytest.mark.slow
def test_checkpoints_are_measured_and_the_best_is_the_stages_model(
    services: ServiceSettings, tmp_path: Path
) -> None:
    create_run(tmp_path / "run", config_of(tmp_path))
    with in_run(tmp_path / "run", services) as (run, tiers):
        train(run, tiers)

    measured = data_of(run, "tier_evaluated")
    assert [(one["stage"], one["step"]) for one in measured] == [("sft", 2), ("sft", 4), ("sft", 6)]
    stored = read_evaluation(tmp_path / "run" / str(measured[0]["folder"]))
    assert stored.is_finished
    assert len(stored.sets["valid"].samples) == 4
    best = read_best(tmp_path / "run")
    assert best is not None
    assert best.value == max(one.value for one in best.measured)
    (used,) = data_of(run, "best_checkpoint_used")
    assert used["step"] == best.step
    assert (tmp_path / "run" / best.folder).is_dir()
    (place,) = find_policies(str(tmp_path / "run"), None)
    assert place.step == best.step


@pytest.mark.slow
def test_the_best_checkpoint_of_an_adapter_leaves_its_adapter(
    services: ServiceSettings, tmp_path: Path
) -> None:
    config = config_of(tmp_path)
    lora = config.policy.model_copy(update={"lora": LoRAConfig(rank=2)})
    create_run(tmp_path / "run", config.model_copy(update={"policy": lora}))
    with in_run(tmp_path / "run", services) as (run, tiers):
        train(run, tiers)
    model = tmp_path / "run" / "models" / "sft"
    shutil.rmtree(model)
    last = read_best(tmp_path / "run")
    assert last is not None
    earlier = {"step": 4, "folder": last.folder.replace("-6", "-4")}
    best = last.model_copy(update=earlier)
    write_best(tmp_path / "run", best)
    with in_run(tmp_path / "run", services) as (run, tiers):
        train(run, tiers)
    own, kept = (
        load_file(folder / "adapter_model.safetensors")
        for folder in (model / "adapter", tmp_path / "run" / best.folder)
    )
    assert own.keys() == kept.keys()
    newest = load_file(tmp_path / "run" / last.folder / "adapter_model.safetensors")
    assert not all(torch.equal(own[name], newest[name]) for name in own)
    assert all(torch.equal(own[name].float(), kept[name].float()) for name in own)
    (place,) = find_policies(str(tmp_path / "run"), None)
    merged, published = (
        load_file(folder / "model.safetensors")
        for folder in (servable_folder(place, tmp_path / "scratch"), model)
    )
    assert all(torch.equal(merged[name], published[name]) for name in merged)


@pytest.mark.slow
def test_a_stopped_run_measures_what_is_missing_when_it_is_resumed(
    services: ServiceSettings, tmp_path: Path
) -> None:
    create_run(tmp_path / "run", config_of(tmp_path))

    def stop_at_4(run: RunContext, event: Event) -> None:
        if event.kind == "sft_step" and event.data["step"] == 4:
            run.stop.ask()

    with pytest.raises(Stopped), in_run(tmp_path / "run", services, stop_at_4) as (run, tiers):
        train(run, tiers)
    assert not (tmp_path / "run" / ".scratch").exists()
    with in_run(tmp_path / "run", services) as (run, tiers):
        train(run, tiers)

    finished = {one["step"] for one in data_of(run, "tier_evaluated")}
    assert finished >= {4, 6}


@pytest.mark.slow
def test_test_rows_are_opened_once_at_the_end_and_that_is_recorded(
    services: ServiceSettings, tmp_path: Path
) -> None:
    create_run(tmp_path / "run", config_of(tmp_path, at=[2]))

    async def served() -> PolicyVersion:
        async with InferenceClient.from_settings(services) as client:
            status = await client.weight_status()
        assert status.policy is not None
        return status.policy

    with in_run(tmp_path / "run", services) as (run, tiers):
        train(run, tiers)
        assert data_of(run, "test_set_opened") == []
        for _ in range(2):
            tiers.at_end(asyncio.run(served()))

    assert data_of(run, "test_set_opened") == [{"tier": "last", "set": "held", "num_tasks": 4}]
    assert [one["step"] for one in data_of(run, "tier_evaluated")] == [2, None, None]
    assert read_best(tmp_path / "run") is None


def test_no_checkpoint_is_measured_or_chosen_by_test_rows(
    services: ServiceSettings, tmp_path: Path
) -> None:
    create_run(tmp_path / "run", config_of(tmp_path, role=Role.TEST))

    with (
        pytest.raises(RoleError, match="valid has rows for tests alone: no checkpoint is measured"),
        in_run(tmp_path / "run", services),
    ):
        pass


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "evaluation.best.set=held",
            "best.set 'held' must be a set of a tier with at: checkpoints",
        ),
        ("evaluation.best.metric=loss", "Input should be 'accepted_at_1'"),
    ],
)
def test_what_cannot_choose_a_checkpoint_is_refused(
    override: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(config_of(tmp_path).model_dump(mode="json")))

    with pytest.raises(ConfigError, match=message):
        load_config(RunConfig, file, (override,))


def test_an_unknown_rubric_of_any_set_is_told_before_training(
    services: ServiceSettings, tmp_path: Path
) -> None:
    config = config_of(tmp_path)
    create_run(tmp_path / "run", config)
    held = tmp_path / "held.jsonl"
    held.write_text(held.read_text().replace('"math"', '"nobodys"'))
    with in_run(tmp_path / "run", services) as (_, tiers):
        with pytest.raises(InvalidInput, match="nobodys") as refused:
            tiers.check_rubrics()
        assert refused.value.field == "evaluation.tiers last.sets.held"
    held.write_text(held.read_text().replace('"nobodys"', '"math"'))
    with in_run(tmp_path / "run", services) as (_, tiers):
        tiers.check_rubrics()


def test_a_set_for_training_alone_is_told_by_its_field(
    services: ServiceSettings, tmp_path: Path
) -> None:
    create_run(tmp_path / "run", config_of(tmp_path))
    write(tmp_path / "held.jsonl", Role.TRAIN)
    told = "all 4 rows of held are for training"
    with pytest.raises(RoleError, match=told) as refused, in_run(tmp_path / "run", services):
        pass
    assert refused.value.field == "evaluation.tiers last.sets.held"
