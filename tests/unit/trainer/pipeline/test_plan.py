"""`assay train --plan` of a file that training refuses at once asks for no service."""

import json
from pathlib import Path

import pytest

from assay_shared.cli import main
from assay_trainer import config as trainer_config

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


def test_a_switch_that_cannot_act_is_told_without_services(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("ASSAY_RUNS", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["train", str(DEMO), "grpo.kl_estimator=k1", "--plan", "--json"])
    assert ended.value.code == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["field"], finding["refused"]) == ("grpo.kl_estimator", True)
