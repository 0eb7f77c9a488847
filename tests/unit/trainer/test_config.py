from pathlib import Path

import pytest

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import load_config, parse_config
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.grpo_config import CorrectionConfig, GRPOConfig
from assay_trainer.learner.objective import Objective
from assay_trainer.objective.losses.table import LOSSES

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
        ("policy.lora.targets=[q_proj, lm_head]", "the head is not adapted"),
        ("policy.lora={nf4: true, targets: [q_proj]}", "nf4 goes with targets all-linear"),
        ("policy.lora.rank=0", "policy.lora.rank: "),
        ("data.train.kind=generate", "data.train: .*'generated', 'jsonl', 'humaneval'"),
        ("sft.steps=true", "sft.steps: .* valid integer, not True"),
        ("seed=-1", "seed: .* greater than or equal to 0, not -1"),
        ("seed=4294967296", "seed: .* less than 4294967296"),
        ("data.train.seed=-1", r"data.train.seed: "),
        ("trackers=[wandb, wandb]", "trackers: wandb stands there twice"),
        ("evaluation.k=[1, 1]", "evaluation.k: 1 stands there twice"),
        ("evaluation.k=[1, 0]", "evaluation.k.1: "),
        ("policy.lora.targets=[]", r"policy.lora.targets: List should have at least 1 item"),
        ("policy.lora.targets=[q_proj, q_proj]", "policy.lora.targets: q_proj stands there twice"),
        ("data.train={kind: jsonl}", "data.train.path: missing"),
        ("grpo.loss=ppo", "grpo.loss: .*must be grpo, dapo, dr_grpo, .* or reinforce"),
        ("name='../escape'", "name: "),
        ("sft.learning_rate=.inf", "sft.learning_rate: .*finite"),
        ("sft.epochs=2", "sft: give exactly one of steps and epochs"),
        ("sft.steps=null", "sft: give exactly one of steps and epochs"),
        ("sft.micro_batch_size=48", "sft: batch_size must be a multiple of micro_batch_size"),
        ("sft.validation_share=1", "sft.validation_share: "),
        ("dpo={data: {kind: jsonl, path: x}}", "dpo: give exactly one of steps and epochs"),
        ("dpo={data: {kind: gsm8k}, steps: 1}", "dpo.data: .*'jsonl', 'table', 'hub'"),
        (
            "dpo={data: {kind: jsonl, path: x, map: {chosen: best}}, steps: 1}",
            "chosen: names no column",
        ),
    ],
)
def test_impossible_combinations_name_the_keys(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(RunConfig, DEMO, (override,))


GRPO = {"grpo.loss": tuple(LOSSES), "grpo.max_staleness": (1, 4)}


@pytest.mark.parametrize("loss", GRPO["grpo.loss"])
@pytest.mark.parametrize("staleness", GRPO["grpo.max_staleness"])
def test_a_runs_own_configuration_reads_back_as_it_was(loss: str, staleness: int) -> None:
    """A resume reads config.json with every key in it."""
    changes = (f"grpo.loss={loss}", f"grpo.max_staleness={staleness}")
    config = load_config(RunConfig, DEMO, changes)
    values = config.model_dump(mode="json")
    assert parse_config(RunConfig, values, source="config.json") == config


def test_old_tokens_have_truncated_weights_unless_the_run_file_clips() -> None:
    def highest_weight(*changes: str) -> float | None:
        grpo = load_config(RunConfig, DEMO, changes).grpo
        assert grpo is not None
        return None if grpo.correction is None else grpo.correction.high

    stale = "grpo.max_staleness=2"
    assert highest_weight() is None
    assert highest_weight(stale) == 2.0
    assert highest_weight(stale, "grpo.correction=null") is None
    assert highest_weight(stale, "grpo.clip_high=0.3") is None
    assert highest_weight(stale, "grpo.loss=gspo") is None
    assert highest_weight("grpo.correction={kind: tis, high: 1.5}") == 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("grpo.hard_staleness=0", "hard_staleness must be at least max_staleness"),
        ("grpo.correction=is", "grpo.correction: must be tis, mis, icepop, decoupled"),
        ("grpo.correction={kind: tis, low: 0.5}", "correction tis has no bound low: leave it out"),
        ("grpo.correction={kind: tis, high: 0.5}", "correction.high: .*greater than or equal to 1"),
        ("grpo.average=mean", "grpo.average: .*must be sequence, token or constant"),
        ("grpo.kl_estimator=k4", "grpo.kl_estimator: .*must be k1, k2 or k3"),
        ("grpo.overlong={kind: punish}", "overlong.tokens goes with kind punish, which needs it"),
        ("grpo.overlong={kind: punish, tokens: 999}", "overlong.tokens must be at most max_tokens"),
        ("grpo.updates_per_step=0", "grpo.updates_per_step: .*greater than or equal to 1"),
    ],
)
def test_a_setting_of_the_objective_that_cannot_be_names_what_can(
    change: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(RunConfig, DEMO, (change,))


def test_a_corrections_kind_alone_has_its_own_bounds() -> None:
    grpo = load_config(RunConfig, DEMO, ("grpo.correction=icepop",)).grpo
    assert grpo is not None
    assert grpo.correction == CorrectionConfig(kind="icepop")
    chosen = Objective.of(grpo).correction
    assert chosen is not None
    assert (chosen.low, chosen.high) == (0.5, 5.0)


@pytest.mark.parametrize("loss", [["dapo"], {"kind": "dapo"}, 3, "ɡrpo"])
def test_a_loss_that_is_no_name_of_one_is_refused(loss: object) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(GRPOConfig, {"steps": 1, "loss": loss, "max_staleness": 2}, source="run.yaml")
    assert refused.value.field == "loss"


@pytest.mark.parametrize("clip_low", [1.0, 1.5])
def test_a_lower_clip_that_no_ratio_can_reach_is_refused(clip_low: float) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(GRPOConfig, {"steps": 1, "clip_low": clip_low}, source="run.yaml")
    assert refused.value.field == "clip_low"
