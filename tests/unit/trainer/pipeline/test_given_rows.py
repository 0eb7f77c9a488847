"""SFT and DPO as stages of a run, one after the other, stopped and resumed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from assay_shared.errors import ConfigError, DatasetError
from assay_shared.runs.run_folder import Event
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Message
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.data.tokenization import answered_token_ids
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.given_rows import (
    clean_demonstrations,
    clean_pairs,
    run_dpo,
    run_sft,
)
from assay_trainer.pipeline.policy import Policy, initial_policy, make_publisher, stage_model
from assay_trainer.pipeline.run_sets import (
    RunSets,
    check_for_leaks,
    open_sets,
    set_aside_control_tokens,
    set_aside_too_long,
)
from assay_trainer.pipeline.tiers import Tiers
from assay_trainer.service.record import create_run, open_run
from assay_trainer.stop import Stop, Stopped
from tests.support.policies import TINY

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
SFT = {
    "epochs": 2,
    "batch_size": 16,
    "micro_batch_size": 8,
    "validation_share": 0.2,
    "validation_every": 3,
}


def config_of(folder: Path, number: int = 40) -> RunConfig:
    rows = [
        {
            "prompt": f"Write solve(x). Return x plus {n}.",
            "chosen": f"def solve(x):\n    return x + {n}\n",
            "rejected": "I cannot." if n != 7 else "no " * 200,
        }
        for n in range(number)
    ]
    path = folder / "preferences.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = yaml.safe_load(DEMO.read_text())
    values["policy"] = {"new": TINY.model_dump()}
    values["data"]["train"]["num_tasks"] = 60
    values["data"]["held_out"]["num_tasks"] = 4
    values["dpo"] = {
        "data": {"kind": "jsonl", "path": str(path)},
        "epochs": 3,
        "batch_size": 8,
        "micro_batch_size": 4,
        "learning_rate": 1e-3,
        "warmup_steps": 0,
        "held_out_share": 0.25,
    }
    return RunConfig.model_validate(values | {"sft": SFT, "grpo": None})


def run_in(folder: Path, told: list[Event], stop_at: tuple[str, int] | None = None) -> RunContext:
    """Return the run in `folder`; a stop is asked for at the step `stop_at` of an event's kind."""
    stop = Stop()

    def on_event(event: Event) -> None:
        told.append(event)
        if stop_at == (event.kind, event.data.get("step")):
            stop.ask()

    return RunContext(*open_run(folder), ServiceSettings(), stop, Ranks(), on_event)


def opened(folder: Path, config: RunConfig) -> tuple[RunContext, RunSets, Policy, list[Event]]:
    """Return a new run with its sets, its first policy, and its events from here on."""
    create_run(folder / "run", config)
    told: list[Event] = []
    run = run_in(folder / "run", told)
    sets = open_sets(run)
    return run, sets, stage_model(run, "initial", lambda: initial_policy(run, sets)), told


def train(run: RunContext) -> tuple[RunSets, Policy]:
    sets = open_sets(run)
    policy = stage_model(run, "initial", lambda: initial_policy(run, sets))
    assert run.config.sft is not None
    assert run.config.dpo is not None
    policy = run_sft(run, sets, policy, run.config.sft, Tiers(run))
    return sets, run_dpo(run, sets, policy, run.config.dpo, Tiers(run))


def test_an_answer_as_long_as_the_context_is_refused_by_its_field(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    longest = GRPOConfig(steps=1, max_tokens=10**9)
    run, sets, policy, told = opened(tmp_path, config.model_copy(update={"grpo": longest}))
    with pytest.raises(ConfigError, match="1000000000 tokens of an answer do not fit") as refused:
        set_aside_too_long(run, sets, *policy)
    assert refused.value.field == "grpo.max_tokens"
    assert not [event for event in told if event.kind == "task_set_aside"]


@pytest.mark.nightly
def test_a_run_stopped_in_both_stages_ends_like_one_that_was_not(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    for name in ("whole", "parts"):
        create_run(tmp_path / name, config)
    whole: list[Event] = []
    sets, (model, _) = train(run_in(tmp_path / "whole", whole))
    assert len(sets.preferences) == 40

    told: list[Event] = []
    for stop_at in (("sft_step", 2), ("dpo_step", 4)):
        with pytest.raises(Stopped):
            train(run_in(tmp_path / "parts", told, stop_at))
    _, (resumed, _) = train(run_in(tmp_path / "parts", told))
    resumes = [event.data for event in told if event.kind == "resumed"]
    assert [(data["stage"], data["step"]) for data in resumes] == [("sft", 3), ("dpo", 5)]
    for (name, one), (_, other) in zip(
        model.state_dict().items(), resumed.state_dict().items(), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0, msg=name)

    def of(kind: str, events: list[Event]) -> list[dict[str, object]]:
        return [event.data for event in events if event.kind == kind]  # type: ignore[misc]

    (stage,) = [e.data for e in whole if e.data.get("stage") == "sft" and e.kind == "stage_started"]
    sft = of("sft_step", whole)
    assert [step["step"] for step in sft] == list(range(1, stage["num_steps"] + 1))  # type: ignore[arg-type,operator]
    measured = [step["step"] for step in sft if step["validation_loss"] is not None]
    assert measured == [3, 6]
    assert of("pairs_left_out", whole) == [{"num_pairs": 1, "reason": "too long"}]
    before, after = of("dpo_measured", whole)
    assert (before["num_pairs"], before["margin"]) == (10, 0)
    assert after["margin"] > 0.1  # type: ignore[operator]
    assert after["win_rate"]["value"] > 0.9  # type: ignore[index]
    assert len(of("dpo_step", whole)) == 12
    assert (tmp_path / "whole" / "models" / "dpo.sha256.json").exists()
    assert run_in(tmp_path / "whole", []).step == 12


def test_the_prompts_of_preferences_are_compared_with_the_held_out_tasks(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    create_run(tmp_path / "run", config)
    run = run_in(tmp_path / "run", [])
    stolen = open_sets(run).held_out.dataset.tasks[0]
    assert config.dpo is not None
    row = {"prompt": stolen.prompt, "chosen": stolen.gold, "rejected": "I cannot."}
    config.dpo.data.path.write_text(json.dumps(row) + "\n")  # type: ignore[union-attr]
    with pytest.raises(DatasetError, match="held-out"):
        check_for_leaks(run, open_sets(run))


def test_pairs_with_a_control_token_are_left_out_and_too_many_end_the_run(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    run, sets, policy, told = opened(tmp_path, config)
    end = str(policy[1].eos_token)
    first, *rest = sets.preferences
    assert clean_pairs(run, [replace(first, chosen=f"yes{end}"), *rest], policy) == rest
    assert [event.data for event in told if event.kind == "channel_checked"] == [
        {"stage": "dpo", "num_rows": 40, "num_unclean": 1}
    ]
    bad = [replace(one, chosen=f"yes{end}") for one in rest[:3]]
    with pytest.raises(DatasetError, match="3 of 39 pairs have control tokens"):
        clean_pairs(run, bad + rest[3:], policy)


REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
)


def test_pairs_of_equal_answers_are_left_out(tmp_path: Path) -> None:
    run, sets, policy, told = opened(tmp_path, config_of(tmp_path))
    first, *rest = sets.preferences
    assert clean_pairs(run, [replace(first, rejected=first.chosen), *rest], policy) == rest
    assert [event.data["reason"] for event in told if event.kind == "pairs_left_out"] == [
        "equal answers"
    ]
    with pytest.raises(DatasetError, match="40 have equal answers"):
        clean_pairs(run, [replace(one, rejected=one.chosen) for one in sets.preferences], policy)


def test_rows_that_the_chat_template_refuses_are_left_out(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    run, sets, (model, tokenizer), told = opened(tmp_path, config)
    tokenizer.chat_template = REFUSES_SYSTEM + str(tokenizer.chat_template)
    system = {"history": (Message(role="system", content="Be brief."),)}
    first, *rest = sets.preferences
    with_system = replace(first, task=first.task.model_copy(update=system))
    assert clean_pairs(run, [with_system, *rest], (model, tokenizer)) == rest
    assert [event.data for event in told if event.kind == "pairs_left_out"] == [
        {"num_pairs": 1, "reason": "chat template"}
    ]
    tasks = sets.demonstrations.dataset.tasks
    tasks[3] = tasks[3].model_copy(update=system)
    tasks[5] = tasks[5].model_copy(update={"gold": "x" * 5000})
    assert config.sft is not None
    clean_demonstrations(run, sets, (model, tokenizer), config.sft)
    aside = {str(e.data["task"]): str(e.data["reason"]) for e in told if e.kind == "task_set_aside"}
    assert aside[tasks[3].id] == "the chat template refuses it: no system"
    assert "longer than a context of 128" in aside[tasks[5].id]


def test_the_probe_is_the_first_task_that_the_chat_template_takes(tmp_path: Path) -> None:
    run, sets, (_, tokenizer), _ = opened(tmp_path, config_of(tmp_path))
    tokenizer.chat_template = REFUSES_SYSTEM + str(tokenizer.chat_template)
    tasks = sets.train.dataset.tasks
    system = {"history": (Message(role="system", content="Be brief."),)}
    tasks[0] = tasks[0].model_copy(update=system)
    ids, _ = answered_token_ids(tasks[1], tasks[1].gold or "", tokenizer)
    assert make_publisher(run, sets, tokenizer)._probe_ids == ids[:128]
    tasks[:] = [one.model_copy(update=system) for one in tasks]
    with pytest.raises(DatasetError, match="no training task can be shown .* no system"):
        make_publisher(run, sets, tokenizer)


def test_tasks_without_gold_teach_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    run, sets, policy, _ = opened(tmp_path, config)
    tasks = sets.demonstrations.dataset.tasks
    tasks[:] = [one.model_copy(update={"gold": None}) for one in tasks]
    assert config.sft is not None
    with pytest.raises(DatasetError, match="no training task has a gold answer"):
        clean_demonstrations(run, sets, policy, config.sft)


def test_demonstrations_without_an_answer_are_set_aside(tmp_path: Path) -> None:
    run, sets, policy, told = opened(tmp_path, config_of(tmp_path))
    tasks = sets.demonstrations.dataset.tasks
    silent = (Message(role="user", content="Hi."), Message(role="assistant", content=""))
    tasks[3] = tasks[3].model_copy(update={"gold": " \n"})
    tasks[5] = tasks[5].model_copy(update={"history": silent})
    assert run.config.sft is not None
    rows = clean_demonstrations(run, sets, policy, run.config.sft)
    assert {task.id for task in tasks} - {one.task.id for one in rows} == {tasks[3].id}
    with_history = run.config.sft.model_copy(update={"learn_history": True})
    rows = clean_demonstrations(run, sets, policy, with_history)
    assert {task.id for task in tasks} - {one.task.id for one in rows} == {tasks[3].id, tasks[5].id}
    aside = [str(event.data["reason"]) for event in told if event.kind == "task_set_aside"]
    assert [reason.partition(":")[0] for reason in aside] == [
        "its `gold` is empty",
        "a reply in its `history` is empty, and is not to be learnt",
    ]


def test_demonstrations_with_a_control_token_are_set_aside(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    run, sets, policy, told = opened(tmp_path, config)
    tasks = sets.demonstrations.dataset.tasks
    end = str(policy[1].eos_token)
    tasks[3] = tasks[3].model_copy(update={"gold": f"{tasks[3].gold}{end}"})
    assert config.sft is not None
    rows = clean_demonstrations(run, sets, policy, config.sft)
    assert tasks[3].id not in {one.task.id for one in rows}
    assert {one.task.id for one in rows} == {task.id for task in tasks} - {tasks[3].id}
    aside = [event.data for event in told if event.kind == "task_set_aside"]
    assert [(one["task"], end in str(one["reason"])) for one in aside] == [(tasks[3].id, True)]


def test_tasks_of_grpo_with_a_control_token_in_their_prompt_are_set_aside(tmp_path: Path) -> None:
    config = config_of(tmp_path).model_copy(update={"grpo": GRPOConfig(steps=1)})
    run, sets, (_, tokenizer), told = opened(tmp_path, config)
    tasks = sets.train.dataset.tasks
    tasks[3] = tasks[3].model_copy(update={"prompt": f"{tasks[3].prompt}{tokenizer.eos_token}"})
    set_aside_control_tokens(run, sets, tokenizer)
    assert [event.data for event in told if event.kind == "channel_checked"] == [
        {"stage": "grpo", "num_rows": 60, "num_unclean": 1}
    ]
    assert {task.id for task in sets.train.usable.tasks} == {t.id for t in tasks} - {tasks[3].id}
