"""A run is refused before it has a folder, and before a service is asked."""

import os
import sys
from pathlib import Path

import pytest

from assay_shared.errors import AssayError, ConfigError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import load_config
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.pipeline.before_start import check_start

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("data.held_out={kind: jsonl, path: none.jsonl}", "data.held_out.path"),
        (
            "evaluation.tiers=[{name: t1, sets: {v: {kind: jsonl, path: none.jsonl}}, at: end}]",
            "evaluation.tiers t1.sets.v.path",
        ),
        ("trackers=[wandb]", "trackers"),
        ("dpo={data: {kind: jsonl, path: sub}, steps: 1}", "dpo.data.path"),
        ("dpo={data: {kind: table, path: rows.txt}, steps: 1}", "dpo.data.path"),
        ("dpo={data: {kind: jsonl, path: pipe.jsonl}, steps: 1}", "dpo.data.path"),
        (
            "data.held_out={kind: table, path: sub, role: test, map: {prompt: '{q}', rubric: r}}",
            "data.held_out.path",
        ),
    ],
)
def test_what_this_machine_does_not_have_is_refused_by_its_field(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str, field: str
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "rows.txt").touch()
    os.mkfifo(tmp_path / "pipe.jsonl")
    config = load_config(RunConfig, DEMO, (change,))
    with pytest.raises(AssayError) as refused:
        check_start(config, ServiceSettings(redis_url="redis://127.0.0.1:1/0"), [])
    assert refused.value.field == field


def test_an_answer_as_long_as_the_context_is_refused_by_its_field() -> None:
    config = load_config(RunConfig, DEMO, ("grpo.max_tokens=1000000",))
    with pytest.raises(ConfigError, match="1000000 tokens of an answer do not fit") as refused:
        check_start(config, ServiceSettings(), [])
    assert refused.value.field == "grpo.max_tokens"


def test_all_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiers = "[{name: t1, sets: {v: {kind: jsonl, path: a.jsonl}}, at: end}]"
    changes = ("data.held_out={kind: jsonl, path: b.jsonl}", f"evaluation.tiers={tiers}")
    with pytest.raises(AssayError, match=r"there is no file b\.jsonl, nor a\.jsonl") as refused:
        check_start(load_config(RunConfig, DEMO, changes), ServiceSettings(), [])
    assert refused.value.field == "data.held_out.path, evaluation.tiers t1.sets.v.path"


def test_a_missing_policy_is_named_with_missing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = ("policy={folder: gone}", "data.held_out={kind: jsonl, path: b.jsonl}")
    with pytest.raises(AssayError, match=r"there is no file gone, nor b\.jsonl") as refused:
        check_start(load_config(RunConfig, DEMO, changes), ServiceSettings(), [])
    assert refused.value.field == "policy.folder, data.held_out.path"
