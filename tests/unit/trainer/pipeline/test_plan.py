"""`assay train --plan` of a file that training refuses at once asks for no service."""

import json
import sys
from pathlib import Path

import pytest

from assay_shared.cli import main
from assay_shared.runs.run_lock import held
from assay_trainer import config as trainer_config

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
SMALL = ("data.train.num_tasks=60", "data.held_out.num_tasks=4")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("grpo.kl_estimator=k1", "grpo.kl_estimator: kl_estimator does nothing"),
        ("data.held_out={kind: jsonl, path: none.jsonl}", ": there is no file none.jsonl"),
        (
            "evaluation.tiers=[{name: t1, sets: {v: {kind: jsonl, path: none.jsonl}}, at: end}]",
            "evaluation.tiers t1.sets.v.path: there is no file none.jsonl",
        ),
        (
            "evaluation.tiers=[{name: t1, sets: {v: {kind: jsonl, path: bad.jsonl}}, at: end}]",
            "evaluation.tiers t1.sets.v: bad.jsonl:1: not JSON",
        ),
        ("trackers=[wandb]", "trackers: wandb is not installed"),
        ("policy={folder: none}", "there is no model in none"),
        ("grpo.max_tokens=5000", "grpo.max_tokens: 5000 tokens of an answer do not fit"),
    ],
)
def test_what_the_file_shows_is_told_without_services_while_another_run_trains(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    told: str,
) -> None:
    monkeypatch.setenv("ASSAY_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("ASSAY_RUNS", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text("{")
    (tmp_path / "other").mkdir()
    with held(tmp_path / "other"), pytest.raises(SystemExit) as ended:
        main(["train", str(DEMO), *SMALL, change, "--plan", "--json"])
    assert ended.value.code == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    refused = [f"{one['field']}: {one['message']}" for one in findings if one["refused"]]
    assert any(told in one for one in refused), findings
