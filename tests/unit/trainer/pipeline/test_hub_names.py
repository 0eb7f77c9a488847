"""A run with a policy and data by names of a hub on the loopback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import Event
from assay_shared.settings.environment import ServiceSettings
from assay_trainer import config as trainer_config
from assay_trainer.config import DPOConfig, RunConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.hub_names import fetch_hub_names
from assay_trainer.pipeline.policy import initial_policy
from assay_trainer.pipeline.run_sets import open_sets
from assay_trainer.service.record import create_run, open_run
from assay_trainer.stop import Stop
from assay_trainer.table_source import PreferenceHub
from tests.support.hub import LocalHub
from tests.support.policies import make_policy_folder

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
MODEL, DATA, PAIRS = "owner/model", "owner/sums", "owner/pairs"
TOKEN = "hf_a_token_for_tests"
MAP = {"prompt": "{question}", "gold": "{answer}", "rubric": "math"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    with LocalHub(tmp_path / "served", tokens={MODEL: TOKEN, DATA: TOKEN}).running() as served:
        served.use(monkeypatch, tmp_path / "home")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served


def model_files(folder: Path, seed: int) -> dict[str, bytes]:
    make_policy_folder(folder, seed)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows(word: str) -> dict[str, bytes]:
    lines = [json.dumps({"question": f"{word} {n}?", "answer": f"{n}"}) for n in range(4)]
    text = ("\n".join(lines) + "\n").encode()
    return {"train.jsonl": text, "test.jsonl": text}


def run_in(folder: Path, told: list[Event]) -> RunContext:
    """Return the run in `folder`: a new run, or the run already there."""
    if not folder.exists():
        values = yaml.safe_load(DEMO.read_text())
        values["policy"] = {"hub": MODEL}
        values["data"] = {
            "train": {"kind": "hub", "name": DATA, "split": "train", "map": MAP},
            "held_out": {"kind": "hub", "name": DATA, "split": "test", "map": MAP},
        }
        create_run(folder, RunConfig.model_validate(values))
    return RunContext(*open_run(folder), ServiceSettings(), Stop(), Ranks(), told.append)


def test_a_resumed_run_reads_the_commits_that_it_began_with(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.publish("models", MODEL, model_files(tmp_path / "one", 1))
    data_commit = hub.publish("datasets", DATA, rows("old"))
    told: list[Event] = []
    run = run_in(tmp_path / "run", told)
    fetch_hub_names(run)
    weights = initial_policy(run, open_sets(run))[0].state_dict()
    pinned = [event.data["revision"] for event in told if event.kind == "hub_pinned"]
    assert pinned == [commit, data_commit, data_commit]

    assert hub.publish("models", MODEL, model_files(tmp_path / "two", 2)) != commit
    hub.publish("datasets", DATA, rows("new"))
    hub.use(monkeypatch, tmp_path / "another home")  # nothing is cached: it has to be asked for
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    resumed = run_in(tmp_path / "run", told)
    fetch_hub_names(resumed)
    sets = open_sets(resumed)
    assert sets.train.dataset.tasks[0].prompt == "old 0?"
    again = initial_policy(resumed, sets)[0].state_dict()
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    assert resumed.config.policy.revision == commit
    assert len([event for event in told if event.kind == "hub_pinned"]) == 3


def test_the_token_is_in_no_record_of_the_run(hub: LocalHub, tmp_path: Path) -> None:
    hub.publish("models", MODEL, model_files(tmp_path / "one", 1))
    hub.publish("datasets", DATA, rows("old"))
    run = run_in(tmp_path / "run", [])
    fetch_hub_names(run)
    open_sets(run)
    records = [path for path in run.folder.path.rglob("*") if path.is_file()]
    assert len(records) >= 4
    assert not [path for path in records if TOKEN.encode() in path.read_bytes()]


def test_progress_is_recorded_in_megabytes_and_the_end_is_told(
    hub: LocalHub, tmp_path: Path
) -> None:
    files = model_files(tmp_path / "one", 1) | {"model-2.safetensors": bytes(35 * 10**6)}
    hub.publish("models", MODEL, files)
    hub.publish("datasets", DATA, rows("old"))
    told: list[Event] = []
    fetch_hub_names(run_in(tmp_path / "run", told))
    done = [event.data["done"] for event in told if event.kind == "progress"]
    assert done == [10, 20, 30]
    assert told[-1].kind == "stage_finished"


def test_a_model_with_code_of_its_own_is_refused_and_its_code_is_not_fetched(
    hub: LocalHub, tmp_path: Path
) -> None:
    files = model_files(tmp_path / "one", 1)
    own = {"model_type": "strange", "auto_map": {"AutoConfig": "evil.Config"}}
    files |= {"config.json": json.dumps(own).encode(), "evil.py": b"1/0", "pytorch_model.bin": b"x"}
    hub.publish("models", MODEL, files)
    hub.publish("datasets", DATA, rows("old"))
    run = run_in(tmp_path / "run", [])
    with pytest.raises(InvalidInput, match="model type strange.*code from a hub is never run"):
        fetch_hub_names(run)
    taken = {path.rpartition("/")[2] for _, path, _ in hub.asked if "/resolve/" in path}
    assert taken <= {"config.json", ".gitattributes"}


def test_the_preferences_of_dpo_are_pinned_too(hub: LocalHub, tmp_path: Path) -> None:
    row = {"question": "2 + 3?", "chosen": "5", "rejected": "6"}
    hub.publish("models", MODEL, model_files(tmp_path / "one", 1))
    hub.publish("datasets", DATA, rows("old"))
    commit = hub.publish("datasets", PAIRS, {"train.jsonl": json.dumps(row).encode()})
    run_in(tmp_path / "run", [])
    folder, config = open_run(tmp_path / "run")
    source = {"kind": "hub", "name": PAIRS, "split": "train", "map": {"prompt": "{question}"}}
    dpo = DPOConfig.model_validate({"data": source, "steps": 1})
    config = config.model_copy(update={"dpo": dpo})
    run = RunContext(folder, config, ServiceSettings(), Stop(), Ranks())
    fetch_hub_names(run)
    assert [one.task.prompt for one in open_sets(run).preferences] == ["2 + 3?"]
    pinned = open_run(tmp_path / "run")[1].dpo
    assert pinned is not None
    assert isinstance(pinned.data, PreferenceHub)
    assert pinned.data.revision == commit
