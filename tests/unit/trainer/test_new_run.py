"""A refused command leaves no run behind, and runs that begin in one second differ."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from assay_shared.errors import AssayError, Conflict
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import load_config
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.new_run import begin_run
from assay_trainer.service.record import create_stamped, open_run
from tests.support.valkey import TestValkey

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


def settings_of(runs: Path, redis_url: str = "unix:///nowhere/valkey.sock") -> ServiceSettings:
    return ServiceSettings(runs=runs, redis_url=redis_url)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU makes these right")
@pytest.mark.parametrize(
    ("changes", "gpus", "message"),
    [
        ((), [7], "--gpus: there is no GPU 7: this machine has 0"),
        (("policy.lora.nf4=true",), [], "policy.lora.nf4: nf4 needs CUDA"),
        (("policy={folder: /nowhere}",), [], "there is no model in /nowhere"),
        (("grpo.kl_estimator=k1",), [], "grpo.kl_estimator: kl_estimator does nothing: kl_weight"),
        (
            ("data.train={kind: jsonl, path: /nowhere.jsonl}", "sft.mistake_rate=0"),
            [],
            "data.train.path: there is no file /nowhere.jsonl",
        ),
        (
            ("dpo={data: {kind: table, path: /nowhere.csv}, steps: 1}",),
            [],
            "dpo.data.path: there is no file /nowhere.csv",
        ),
        ((), [], "no Redis"),
    ],
)
def test_a_refused_command_makes_no_folder(
    tmp_path: Path, changes: tuple[str, ...], gpus: list[int], message: str
) -> None:
    runs = tmp_path / "runs"
    for folder in (None, runs / "named"):
        with pytest.raises(AssayError, match=message):
            begin_run(DEMO, changes, folder, settings_of(runs), gpus)
        assert not runs.exists()


def test_a_wrong_setting_is_refused_before_torch_is_imported() -> None:
    code = f"""
import sys
from pathlib import Path
from assay_shared.errors import ConfigError
from assay_trainer.new_run import begin_run
try:
    begin_run(Path({str(DEMO)!r}), ("grpo.stepz=1",), None, None, [])
except ConfigError as error:
    print(error, "torch" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout == "grpo.stepz: unknown key in demo.yaml (did you mean steps?) False\n"


@pytest.mark.parametrize("given", ["", "0,0"])
def test_what_is_no_list_of_gpus_is_refused(given: str) -> None:
    command = [sys.executable, "-m", "assay_shared.cli", "train", str(DEMO), "--gpus", given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 2
    assert f"--gpus: {given!r} is not a list of GPUs such as 0,1" in done.stderr


def test_runs_of_one_second_have_names_that_differ(
    tmp_path: Path, valkey: TestValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-120000")
    settings = settings_of(tmp_path, valkey.url)
    names = []
    for seed in (1, 2, 3):
        folder, config = begin_run(DEMO, (f"seed={seed}",), None, settings, [])
        assert open_run(folder.path)[1] == config
        names.append(folder.path.name)
    first = "demo-20260101-120000"
    assert names == [first, f"{first}-2", f"{first}-3"]
    assert create_stamped(tmp_path, "demo").name == f"{first}-4"
    with pytest.raises(Conflict, match="exists"):
        begin_run(DEMO, (), tmp_path / first, settings, [])


def test_a_long_name_leaves_room_for_the_time(tmp_path: Path, valkey: TestValkey) -> None:
    name = "a" * 100
    assert load_config(RunConfig, DEMO, (f"name={name}",)).name == name
    folder, _ = begin_run(DEMO, (f"name={name}",), None, settings_of(tmp_path, valkey.url), [])
    assert folder.path.name.startswith("a" * 80 + "-2")
