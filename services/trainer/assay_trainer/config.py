"""The run file: policy, data, training, and evaluation."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from assay_shared.runs.run_folder import RUN_NAME
from assay_shared.settings.run_file import Config
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.grpo_config import GRPOConfig, Stops
from assay_trainer.sources import GeneratedSource as GeneratedSource
from assay_trainer.sources import Gsm8kSource as Gsm8kSource
from assay_trainer.sources import HumanEvalSource as HumanEvalSource
from assay_trainer.sources import JsonlSource as JsonlSource
from assay_trainer.sources import Seed
from assay_trainer.sources import Source as Source
from assay_trainer.table_source import REVISION, PreferenceSource, RepositoryName
from assay_trainer.tier_config import BestCheckpointConfig, TierConfig

Items = TypeVar("Items", bound=tuple[Any, ...])


def _each_once(values: Items) -> Items:
    twice = [one for at, one in enumerate(values) if one in values[:at]]
    if twice:
        raise ValueError(f"{twice[0]} stands there twice")
    return values


class NewPolicyConfig(Config):
    """A small Qwen2 made from scratch, with a tokenizer trained on the run's own texts."""

    vocabulary_size: int = Field(default=512, ge=300)
    hidden_size: int = Field(default=128, gt=0)
    intermediate_size: int = Field(default=384, gt=0)
    num_layers: int = Field(default=4, gt=0)
    num_heads: int = Field(default=4, gt=0)
    context_length: int = Field(default=256, gt=0)

    @model_validator(mode="after")
    def _whole_heads(self) -> Self:
        if self.hidden_size % self.num_heads:
            raise ValueError("hidden_size must be a multiple of num_heads")
        return self


class LoRAConfig(Config):
    """A LoRA adapter (arXiv 2106.09685) that is trained in place of the weights."""

    rank: int = Field(default=16, gt=0)
    #: What the adapter adds is scaled by alpha / rank.
    alpha: int = Field(default=32, gt=0)
    #: Of the adapter's input, in SFT alone.
    dropout: float = Field(default=0.0, ge=0, lt=1)
    #: The names of linear layers, such as q_proj; all of them but the head.
    targets: (
        Literal["all-linear"]
        | Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_each_once)]
    ) = "all-linear"
    #: Whether the frozen weights are held in 4 bits (arXiv 2305.14314). It needs CUDA.
    nf4: bool = False

    @model_validator(mode="after")
    def _linear_layers(self) -> Self:
        if "lm_head" in self.targets:
            raise ValueError("targets cannot have lm_head: the head is not adapted")
        if self.nf4 and self.targets != "all-linear":
            raise ValueError("nf4 goes with targets all-linear")
        return self


class PolicyConfig(Config):
    """Exactly a new model, the folder of a model, or the name of a hub's model."""

    new: NewPolicyConfig | None = None
    folder: Path | None = None
    hub: RepositoryName | None = None
    #: Of `hub`. A run pins it to the commit that it finds.
    revision: str | None = Field(default=None, pattern=REVISION)
    #: Without it, all weights are trained.
    lora: LoRAConfig | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if [self.new, self.folder, self.hub].count(None) != 2:
            raise ValueError("give exactly one of policy.new, policy.folder and policy.hub")
        if self.revision is not None and self.hub is None:
            raise ValueError("revision goes with policy.hub")
        return self


class ValidationConfig(Config):
    """Rewards are proved on some tasks before anything is trained on them: see validation.py."""

    #: A run refuses data of which a greater share of the sampled tasks has an exception.
    max_bad_share: float = Field(default=0.1, ge=0, le=1)
    #: Tasks drawn from each of the two sets.
    sample: int = Field(default=32, gt=0)


class LeaksConfig(Config):
    """Held-out tasks are looked for among the training tasks: see leaks/."""

    #: A run refuses data of which a greater share of the held-out tasks has leaked.
    max_share: float = Field(default=0.0, ge=0, le=1)
    #: Words of an n-gram; 13 is GPT-3's choice.
    ngram_words: int = Field(default=13, ge=8)
    #: Share of a prompt's n-grams in one training task from which on it has leaked.
    min_coverage: float = Field(default=0.8, gt=0, le=1)
    #: What stands in a greater share of either set belongs to a template and does not count.
    boilerplate_share: float = Field(default=0.01, ge=0, le=1)
    #: Similarity of near duplicates; without it, none are looked for.
    jaccard: float | None = Field(default=None, gt=0, lt=1)
    #: Of MinHash: the more, the fewer pairs near the threshold are missed.
    num_permutations: int = Field(default=128, ge=16, le=1024)


class DataConfig(Config):
    """Data to learn from, and data to evaluate on.

    Null for `validation` leaves the rewards unproved; for `leaks`, the two sets uncompared.
    """

    train: Source
    held_out: Source
    #: Tasks that cannot be sampled or scored for their own reasons are set aside: at most this
    #: share of each set, rounded up to whole tasks; more fail the run. With 0, one does.
    max_set_aside_share: float = Field(default=0.05, ge=0, le=1)
    validation: ValidationConfig | None = ValidationConfig()
    leaks: LeaksConfig | None = LeaksConfig()
    #: What SFT learns from in place of `train`: for one, the turns of episodes.
    demonstrations: Source | None = None


class GivenRowsConfig(Config):
    """Training on rows that are given, for a number of updates or of passes over the rows."""

    #: Updates in all. Exactly one of `steps` and `epochs` is given.
    steps: int | None = Field(default=None, gt=0)
    #: Passes over the rows.
    epochs: int | None = Field(default=None, gt=0)
    #: Rows of an update.
    batch_size: int = Field(default=64, gt=0)
    #: Rows of a forward pass; memory grows with them. Without it, a whole update's.
    micro_batch_size: int | None = Field(default=None, gt=0)
    #: Updates until the learning rate is whole; from there it falls to 0 along a cosine.
    warmup_steps: int = Field(default=30, ge=0)
    weight_decay: float = Field(default=0.01, ge=0)
    checkpoint_every: int = Field(default=100, gt=0)

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of steps and epochs")
        if self.micro_batch_size is not None and self.batch_size % self.micro_batch_size:
            raise ValueError("batch_size must be a multiple of micro_batch_size")
        return self


class SFTConfig(GivenRowsConfig):
    """Supervised fine-tuning on demonstrations; a share of them has documented mistakes."""

    learning_rate: float = Field(default=3e-3, gt=0, le=1)
    #: Share of the prompts whose demonstrations are held out to measure the loss on.
    validation_share: float = Field(default=0.0, ge=0, lt=1)
    #: Updates from one such measurement to the next; the last update always has one.
    validation_every: int = Field(default=50, gt=0)
    mistake_rate: float = Field(default=0.0, ge=0, le=1)
    #: Whether replies in a row's history are learnt too: of episodes that were played well.
    learn_history: bool = False
    #: Demonstrations of one task, each with a mistake or not by its own draw.
    demonstrations_per_task: int = Field(default=1, ge=1)


class DPOConfig(GivenRowsConfig):
    """Direct preference optimisation (arXiv 2305.18290) on pairs of answers."""

    data: PreferenceSource
    #: How much a margin over the policy at the stage's start counts: the greater, the closer the
    #: trained policy stays to it.
    beta: float = Field(default=0.1, gt=0)
    learning_rate: float = Field(default=1e-6, gt=0, le=1)
    batch_size: int = Field(default=32, gt=0)
    #: Share of the prompts whose pairs are held out to measure margin and win rate on.
    held_out_share: float = Field(default=0.1, ge=0, lt=1)
    #: Pairs with more tokens, prompt and one answer together, are left out.
    max_length: int = Field(default=1024, gt=1)


class EvaluationConfig(Config):
    """Samples for unbiased pass@k (arXiv 2107.03374), with intervals over tasks."""

    samples_per_task: int = Field(default=4, ge=1, le=256)
    k: Annotated[tuple[Annotated[int, Field(ge=1)], ...], AfterValidator(_each_once)] = (1, 4)
    temperature: float = Field(default=1.0, ge=0, le=10)
    max_tokens: int = Field(default=64, gt=0)
    stop: Stops = ()
    confidence: float = Field(default=0.95, gt=0, lt=1)
    groups_in_flight: int = Field(default=64, gt=0)
    group_timeout_s: float = Field(default=120.0, gt=0)
    group_attempts: int = Field(default=4, ge=1)
    max_failed_groups: int = Field(default=32, gt=0)
    tiers: tuple[TierConfig, ...] = ()
    #: Without it, a stage's model is that of its last update.
    best: BestCheckpointConfig | None = None

    @model_validator(mode="after")
    def _best_is_measured_at_checkpoints(self) -> Self:
        for names in ([one.name for one in self.tiers], [s for t in self.tiers for s in t.sets]):
            if len(set(names)) < len(names):
                raise ValueError("each tier and each of their sets needs its own name")
        sets = [name for one in self.tiers if one.at == "checkpoints" for name in one.sets]
        if self.best is not None and self.best.set not in sets:
            raise ValueError(
                f"best.set {self.best.set!r} must be a set of a tier with at: checkpoints"
            )
        return self

    @model_validator(mode="after")
    def _enough_samples(self) -> Self:
        if 1 not in self.k:
            raise ValueError("k must have 1 in it: pass@1 is what runs are compared by")
        if max(self.k) > self.samples_per_task:
            raise ValueError(
                f"pass@{max(self.k)} needs at least {max(self.k)} samples_per_task, "
                f"not {self.samples_per_task}"
            )
        return self


class RetentionConfig(Config):
    """Retention of a run's files on disk."""

    #: Newest checkpoints of each stage; a resume needs one.
    checkpoints: int = Field(default=2, ge=1)
    #: Also the checkpoint of GRPO with the highest pass rate in training.
    best: bool = True
    #: Of rollouts.jsonl and what is set aside of it; at half of it, the older half goes.
    rollouts_bytes: int = Field(default=16 * 2**30, ge=2**20)
    #: The same of discarded.jsonl; 0 keeps no discarded group.
    discarded_bytes: int = Field(default=2 * 2**30, ge=0)


TrackerName = Literal["tensorboard", "wandb", "mlflow", "trackio"]


class RunConfig(Config):
    """A run: SFT, DPO, an evaluation, GRPO and another evaluation, as far as they are given."""

    name: str = Field(default="run", pattern=rf"^{RUN_NAME}$")
    seed: Seed = 0
    policy: PolicyConfig
    data: DataConfig
    sft: SFTConfig | None = None
    dpo: DPOConfig | None = None
    grpo: GRPOConfig | None = None
    #: The order of GRPO's tasks; without it, shuffled epochs over all of them.
    curriculum: CurriculumConfig | None = None
    evaluation: EvaluationConfig = EvaluationConfig()
    retention: RetentionConfig = RetentionConfig()
    #: Where the numbers of each step go, apart from the run's folder: see pipeline/trackers.py.
    trackers: Annotated[tuple[TrackerName, ...], AfterValidator(_each_once)] = ("tensorboard",)

    @model_validator(mode="after")
    def _curriculum_has_grpo(self) -> Self:
        if self.curriculum is not None and self.grpo is None:
            raise ValueError("curriculum goes with grpo")
        return self
