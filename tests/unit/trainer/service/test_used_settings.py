"""A run's settings between its attempts: recorded if they change, refused if they were used."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.run_file import section_of
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.service.record import create_run, open_run
from assay_trainer.service.used_settings import record_settings

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a run's folder whose settings were recorded once."""
    config = RunConfig.model_validate(yaml.safe_load(DEMO.read_text()))
    folder = create_run(tmp_path / "run", config)
    record_settings(folder, config)
    return folder


def edit(folder: RunFolder, key: str, value: object) -> RunConfig:
    """Change a setting in config.json, as by hand, and return the run's settings."""
    content = json.loads(folder.config.read_text())
    section, name = section_of(content["config"], key)
    section[name] = value
    folder.config.write_text(json.dumps(content))
    return open_run(folder.path)[1]


def begin(folder: RunFolder, stage: str) -> None:
    folder.record("stage_started", stage=stage, num_steps=0)


def recorded(folder: RunFolder) -> list[dict[str, Any]]:
    return [one.data for one in folder.read_events() if one.kind == "settings"]


USED = {
    ("seed", "policy"): 77,
    ("policy.new.hidden_size", "policy"): 64,
    ("sft.batch_size", "sft"): 16,
    ("sft.learning_rate", "evaluate before"): 0.5,
    ("sft", "grpo"): None,
    ("dpo", "signal"): {"data": {"kind": "jsonl", "path": "x.jsonl"}, "steps": 1},
    ("evaluation.samples_per_task", "evaluate before"): 9,
    ("grpo.learning_rate", "evaluate after"): 0.5,
    ("grpo", "grpo"): None,
}


@pytest.mark.parametrize(("key", "stage"), USED)
def test_what_a_stage_has_used_must_stay(folder: RunFolder, key: str, stage: str) -> None:
    begin(folder, stage)
    before = folder.config.read_text()
    config = edit(folder, key, USED[key, stage])
    told = "grpo" if stage == "evaluate after" else stage
    with pytest.raises(ConfigError, match=f"stage {told!r} of this run has used") as caught:
        record_settings(folder, config)
    assert caught.value.field == key
    assert len(recorded(folder)) == 1
    folder.config.write_text(before)
    record_settings(folder, open_run(folder.path)[1])


@pytest.mark.parametrize(("key", "stage"), USED)
def test_a_setting_may_change_before_its_stage_and_is_recorded(
    folder: RunFolder, key: str, stage: str
) -> None:
    begin(folder, "validate")
    config = edit(folder, key, USED[key, stage])
    record_settings(folder, config)
    record_settings(folder, config)
    first, last = recorded(folder)
    assert first["changed"] == []
    assert last["changed"]
    assert all(one.startswith(key) for one in last["changed"])
    assert first["values"] != last["values"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sft.micro_batch_size", 8),
        ("sft.checkpoint_every", 7),
        ("grpo.tokens_per_pack", 512),
        ("grpo.checkpoint_every", 3),
        ("evaluation.group_timeout_s", 7.0),
        ("data.max_set_aside_share", 0.5),
        ("trackers", []),
    ],
)
def test_what_decides_nothing_may_change_at_any_time(
    folder: RunFolder, key: str, value: object
) -> None:
    for stage in ("policy", "sft", "evaluate before", "signal", "grpo", "evaluate after"):
        begin(folder, stage)
    record_settings(folder, edit(folder, key, value))
    assert recorded(folder)[-1]["changed"] == [key]
    assert recorded(folder)[-1]["values"][key] == value


def test_the_commit_of_a_hubs_name_is_no_change(folder: RunFolder) -> None:
    record_settings(folder, edit(folder, "policy", {"hub": "a/b"}))
    begin(folder, "policy")
    record_settings(folder, edit(folder, "policy.revision", "c" * 40))
    assert len(recorded(folder)) == 2
    with pytest.raises(ConfigError, match=r"policy\.hub"):
        record_settings(folder, edit(folder, "policy.hub", "a/c"))


def test_a_setting_of_a_later_release_is_no_change(folder: RunFolder) -> None:
    begin(folder, "sft")
    lines = folder.events.read_text().splitlines()
    event = json.loads(lines[0])
    assert event["data"]["values"].pop("sft.weight_decay") == 0.01
    folder.events.write_text("\n".join([json.dumps(event), *lines[1:]]) + "\n")
    record_settings(folder, open_run(folder.path)[1])
    assert len(recorded(folder)) == 1
