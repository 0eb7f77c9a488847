"""The example files of the study load, and fit each other."""

import json
import shutil
from pathlib import Path

import pytest

from assay_reward.or_debug.study.study_file import StudyFile
from assay_shared.settings.run_file import load_config
from assay_trainer.ablation.arms import (
    arm_config,
    changed_fields,
    read_ablation,
    start_config,
)
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.winner import AblationWinner, load_run
from assay_trainer.inert_rules import inert_switches
from tests.support.policies import make_policy_folder

FILES = Path(__file__).parents[1] / "configs" / "or_phase4"
STAGES = {
    "easy": ["easy"],
    "easy_medium": ["easy", "medium"],
    "medium_hard": ["medium", "hard"],
    "hard": ["hard"],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a finished ablation of the example's arms."""
    folder = tmp_path / "runs" / "or_phase4" / "ablation"
    digest = make_policy_folder(folder / "start")
    plan = read_ablation(FILES / "ablation.yaml")
    arms = {arm.name: arm.overrides for arm in plan.arms}
    content = {"arm": None, "verdict": "INCONCLUSIVE", "start_folder": "start", "digest": digest}
    told = AblationWinner.model_validate(content | {"arms": arms})
    written = told.model_dump(mode="json") | {"settings_digest": told.computed_digest}
    (folder / "winner.json").write_text(json.dumps(written))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_ablation_has_five_cumulative_arms_whose_switches_can_act() -> None:
    plan = read_ablation(FILES / "ablation.yaml")
    assert [arm.name for arm in plan.arms] == [
        "run_0_baseline",
        "run_1_no_kl",
        "run_2_asym_clip",
        "run_3_dynamic",
        "run_4_token_loss",
    ]
    assert plan.arms[-1].overrides == {
        "grpo.kl_weight": 0.0,
        "grpo.clip_low": 0.2,
        "grpo.clip_high": 0.28,
        "grpo.average": "token",
        "grpo.replace_flat": True,
    }
    base = load_config(RunConfig, FILES / "base.yaml")
    assert inert_switches(base) == []
    assert base.grpo is not None
    assert base.grpo.steps * base.grpo.groups_per_step == 2 * 160, "two epochs"


def test_curriculum_and_control_are_arms_with_as_many_updates(home: Path) -> None:
    plan = read_ablation(
        FILES / "curricula.yaml", ('overrides={"curriculum.arm": "run_4_token_loss"}',)
    )
    mixed, staged = (arm_config(plan, arm, 1, None) for arm in plan.arms)
    assert changed_fields(mixed, staged).keys() == {"curriculum.stages"}
    assert start_config(plan).policy.folder == Path("runs/or_phase4/ablation/start")
    for one in (mixed, staged):
        assert one.grpo is not None
        assert one.grpo.replace_flat
        assert one.curriculum is not None
        assert sum(stage.steps or 0 for stage in one.curriculum.stages) == one.grpo.steps
    assert staged.curriculum is not None
    assert [one.name for one in staged.curriculum.stages] == list(STAGES)
    shutil.rmtree(home / "runs")


@pytest.mark.parametrize("arm", ["run_0_baseline", "run_4_token_loss"])
def test_the_curriculum_and_its_control_take_an_arm_of_the_ablation(home: Path, arm: str) -> None:
    for name, stages in (("curriculum.yaml", list(STAGES)), ("mixed.yaml", ["mixed"])):
        config = load_run(FILES / name, (f"curriculum.arm={arm}",))
        assert config.curriculum is not None
        assert [one.name for one in config.curriculum.stages] == stages
        assert config.policy.folder == Path("runs/or_phase4/ablation/start")
        assert config.grpo is not None
        assert config.grpo.replace_flat is (arm == "run_4_token_loss")
        assert inert_switches(config) == []
    config = load_run(FILES / "curriculum.yaml", (f"curriculum.arm={arm}",))
    assert config.curriculum is not None
    for one in config.curriculum.stages:
        assert list(one.where["difficulty"]) == STAGES[one.name] or (
            one.where["difficulty"] == STAGES[one.name][0]
        )
        assert one.epochs == 2
    shutil.rmtree(home / "runs")


def test_the_other_files_load() -> None:
    assert load_config(RunConfig, FILES / "sft.yaml").sft is not None
    assert load_config(RunConfig, FILES / "base.yaml").grpo is not None
    study = load_config(StudyFile, FILES / "report.yaml")
    assert study.final == "curriculum"
    assert len(study.goals) == 7
