from pathlib import Path

import pytest

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import load_config
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


def test_the_demos_run_file_loads() -> None:
    assert load_config(RunConfig, DEMO).grpo is not None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("grpo.max_groups_per_step=3", "max_groups_per_step must be at least groups_per_step"),
        ("grpo.dual_clip=1.2", r"dual_clip must be above 1 \+ clip_high"),
        ("evaluation.k=[1, 8]", "pass@8 needs at least 8 samples_per_task, not 4"),
        ("evaluation.k=[4]", "k must have 1 in it"),
        ("policy.folder=/x", "exactly one of policy.new, policy.folder and policy.hub"),
        ("policy.new.num_heads=3", "hidden_size must be a multiple of num_heads"),
        ("data.train.kind=generate", "data.train: .*'generated', 'jsonl', 'humaneval'"),
        ("grpo.loss=ppo", "grpo.loss: .*'dapo', 'grpo', 'dr_grpo', 'gspo' or 'cispo'"),
        ("name='../escape'", "name: "),
    ],
)
def test_impossible_combinations_name_the_keys(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(RunConfig, DEMO, (override,))


@pytest.mark.parametrize("override", ["grpo.clip_low=0.1", "grpo.dual_clip=3"])
def test_a_bound_that_cispo_does_not_have_is_refused(override: str) -> None:
    name = override.partition("=")[0].removeprefix("grpo.")
    with pytest.raises(ConfigError, match=f"{name} does nothing with loss cispo: leave it out"):
        load_config(RunConfig, DEMO, ("grpo.loss=cispo", override))
