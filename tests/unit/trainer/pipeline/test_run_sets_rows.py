"""A resume with other rows: refused once a stage has used the set, else checked again."""

import json
from pathlib import Path

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_shared.settings.environment import ServiceSettings
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.run_sets import open_sets
from assay_trainer.service.record import create_run, open_run
from assay_trainer.stop import Stop
from tests.support.fakes import make_task

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
SETS = {
    "data.train": ("train.jsonl", "train"),
    "data.held_out": ("held_out.jsonl", "test"),
    "data.demonstrations": ("demonstrations.jsonl", "train"),
}


def write_tasks(path: Path, role: str, gold: str) -> None:
    tasks = [make_task(f"{path.stem}{n}", role=role, gold=gold, tests=()) for n in range(3)]
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in tasks))


def write_pairs(path: Path, rejected: str) -> None:
    row = {"prompt": "Say hello.", "chosen": "Hello.", "rejected": rejected}
    path.write_text(json.dumps(row) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a new run; the files of its sets are in the folder above."""
    values = yaml.safe_load(DEMO.read_text())
    values["data"] = {}
    for field, (name, role) in SETS.items():
        write_tasks(tmp_path / name, role, "1")
        source = {"kind": "jsonl", "path": str(tmp_path / name)}
        values["data"][field.removeprefix("data.")] = source
    write_pairs(tmp_path / "pairs.jsonl", "Go.")
    values["dpo"] = {"data": {"kind": "jsonl", "path": str(tmp_path / "pairs.jsonl")}, "steps": 1}
    create_run(tmp_path / "run", RunConfig.model_validate(values))
    return tmp_path / "run"


def attempt(folder: Path) -> RunContext:
    return RunContext(*open_run(folder), ServiceSettings(), Stop(), Ranks())


def change(folder: Path, field: str) -> None:
    if field == "dpo.data":
        write_pairs(folder.parent / "pairs.jsonl", "Never.")
    else:
        name, role = SETS[field]
        write_tasks(folder.parent / name, role, "2")


@pytest.mark.parametrize(
    ("field", "stage"),
    [
        ("data.train", "signal"),
        ("data.train", "grpo"),
        ("data.demonstrations", "sft"),
        ("data.held_out", "evaluate before"),
        ("dpo.data", "dpo"),
    ],
)
def test_rows_that_a_stage_has_used_must_stay(folder: Path, field: str, stage: str) -> None:
    run = attempt(folder)
    open_sets(run)
    tasks = run.folder.tasks.read_bytes()
    with run.stage(stage):
        pass
    open_sets(attempt(folder))
    change(folder, field)
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"not those with which stage '{stage}'") as told:
            open_sets(attempt(folder))
        assert told.value.field == field
    assert run.folder.tasks.read_bytes() == tasks


def test_sft_uses_the_training_rows_of_a_run_without_demonstrations(folder: Path) -> None:
    record = json.loads((folder / "config.json").read_text())
    record["config"]["data"]["demonstrations"] = None
    (folder / "config.json").write_text(json.dumps(record))
    run = attempt(folder)
    open_sets(run)
    with run.stage("sft"):
        pass
    change(folder, "data.train")
    with pytest.raises(ConfigError, match="not those with which stage 'sft'"):
        open_sets(attempt(folder))


@pytest.mark.parametrize("field", [*SETS, "dpo.data"])
def test_rows_that_no_stage_has_used_may_be_corrected_and_are_checked_again(
    folder: Path, field: str
) -> None:
    run = attempt(folder)
    open_sets(run)
    for stage in {"sft", "dpo", "grpo", "evaluate before"} - {
        "data.train": {"grpo"},
        "data.demonstrations": {"sft"},
        "data.held_out": {"evaluate before"},
        "dpo.data": {"dpo"},
    }[field]:
        with run.stage(stage):
            pass
    checks = [folder / "leaks.json", folder / "validation.jsonl"]
    for one in checks:
        one.write_text("{}")
    open_sets(attempt(folder))
    assert all(one.exists() for one in checks)
    change(folder, field)
    open_sets(attempt(folder))
    assert not any(one.exists() for one in checks)


def test_a_run_without_digests_is_resumed(folder: Path) -> None:
    run = attempt(folder)
    run.record("data", num_train=3, num_held_out=3)
    with run.stage("grpo"):
        pass
    change(folder, "data.train")
    open_sets(attempt(folder))


@pytest.mark.parametrize("content", [b'{"config": {"na', b"[]", b'{"git_commit": "a"}', b"\xff"])
def test_a_damaged_configuration_is_told(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.json is damaged: it has no configuration"):
        open_run(folder)
