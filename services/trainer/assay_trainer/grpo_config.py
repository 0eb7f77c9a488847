"""The settings of GRPO in the run file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from assay_shared.settings.run_file import Config
from assay_shared.types import Normalisation, SyncMode
from assay_trainer.objective.averages import AVERAGES
from assay_trainer.objective.corrections.table import CORRECTIONS
from assay_trainer.objective.kl import ESTIMATORS
from assay_trainer.objective.losses.table import LOSSES

#: Texts that end a reply and are not part of it: the first line after a function, say.
Stops = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=8)]
_CLIPS = ("clip_low", "clip_high", "dual_clip")


def _row_of(table: Mapping[str, object]) -> AfterValidator:
    """Return a check that a name is one of the table's."""

    def check(name: str) -> str:
        if name not in table:
            *others, last = table
            raise ValueError(f"must be {', '.join(others)} or {last}")
        return name

    return AfterValidator(check)


class SignalCheckConfig(Config):
    """GRPO is refused if a sample shows nothing to learn: see pipeline/signal_check.py."""

    #: Groups that are always played. Up to 192 are, while all rewards of each group are equal.
    num_groups: int = Field(default=32, ge=8, le=192)
    #: False records the sample and trains all the same.
    required: bool = True


class CorrectionConfig(Config):
    """What becomes of tokens that the trainer's policy would have sampled with other chances."""

    #: A row of `assay_trainer.objective.corrections`.
    kind: Annotated[str, _row_of(CORRECTIONS)]
    #: Bounds of the importance weight; the kind's own without them.
    low: float | None = Field(default=None, ge=0, lt=1)
    high: float | None = Field(default=None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _own_bounds(cls, values: Any) -> Any:
        """Fill in the kind's own bounds: with and without them, the settings are the same."""
        name = values.get("kind") if isinstance(values, dict) else None
        row = CORRECTIONS.get(name) if isinstance(name, str) else None
        if row is None:
            return values
        own = {"low": row.low, "high": row.high}
        return values | {key: own[key] for key in own if values.get(key) is None}

    @model_validator(mode="after")
    def _bounds_are_the_kinds(self) -> Self:
        row = CORRECTIONS[self.kind]
        for name in ("low", "high"):
            if getattr(self, name) is not None and getattr(row, name) is None:
                raise ValueError(f"correction {self.kind} has no bound {name}: leave it out")
        return self


class OverlongConfig(Config):
    """What becomes of samples that reach `max_tokens`: see learner/normalisation/overlong.py."""

    #: `filter` leaves those that are cut off out of the loss. `punish` lowers the reward of those
    #: that end within the last `tokens`.
    kind: Literal["filter", "punish"]
    #: Length of the zone before `max_tokens` in which the reward falls; for `punish`.
    tokens: int | None = Field(default=None, gt=0)
    #: How much the reward has fallen at `max_tokens`; for `punish`.
    factor: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _zone_fits(self) -> Self:
        if (self.kind == "punish") != (self.tokens is not None):
            raise ValueError("overlong.tokens goes with kind punish, which needs it")
        if self.kind == "filter" and self.factor != 1.0:
            raise ValueError("overlong.factor does nothing with kind filter: leave it out")
        return self


class GRPOConfig(Config):
    """Group-relative policy optimisation (arXiv 2402.03300) with DAPO's choices (2503.14476)."""

    steps: int = Field(gt=0)
    groups_per_step: int = Field(default=16, gt=0)
    group_size: int = Field(default=8, ge=2, le=256)
    learning_rate: float = Field(default=3e-4, gt=0, le=1)
    warmup_steps: int = Field(default=3, ge=0)
    #: adamw_8bit has Adam's moments in 8 bits: see learner/network/optimiser.py.
    optimiser: Literal["adamw", "adamw_8bit"] = "adamw"
    max_grad_norm: float = Field(default=1.0, gt=0)
    #: Tokens of one forward and backward pass, prompts included; memory grows with them.
    tokens_per_pack: int = Field(default=16_384, gt=0)
    #: A row of `assay_trainer.objective.losses`.
    loss: Annotated[str, _row_of(LOSSES)] = "dapo"
    #: Of the tokens' terms: a row of objective/averages.py. Null is the loss's own.
    average: Annotated[str, _row_of(AVERAGES)] | None = None
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: float = Field(default=0.28, gt=0)
    #: The greatest ratio of a token with a negative advantage; without it, there is no bound.
    dual_clip: float | None = Field(default=None, gt=1)
    #: With `dgro`: how much the policy gradient counts, and the distance from the sampling policy.
    policy_weight: float = Field(default=1.0, gt=0)
    distance_weight: float = Field(default=0.1, ge=0)
    #: How much the KL to the policy at the start counts.
    kl_weight: float = Field(default=0.0, ge=0)
    #: A row of objective/kl.py.
    kl_estimator: Annotated[str, _row_of(ESTIMATORS)] = "k3"
    #: How much the entropy of the next token counts.
    entropy_weight: float = Field(default=0.0, ge=0)
    #: Updates of the weights by the same samples.
    updates_per_step: int = Field(default=1, ge=1, le=64)
    #: From rewards to advantages; a rubric may recommend one.
    normalise: Normalisation = Normalisation.GROUP
    #: Of one reply; a task of several turns has as many replies as it allows.
    max_tokens: int = Field(default=64, gt=0)
    stop: Stops = ()
    temperature: float = Field(default=1.0, gt=0, le=10)
    #: How many versions behind the weights that are updated a learnt token may be.
    max_staleness: int = Field(default=1, ge=0)
    #: A group with a token of more versions behind is dropped. Up to here, its tokens beyond
    #: `max_staleness` are left out of the loss.
    hard_staleness: int = Field(default=8, ge=0)
    #: With it, tokens have importance weights, and the ratio is to the policy at the step's start.
    #: Without it, the ratio is to the engine that sampled. Where a run file has neither this nor a
    #: clip, it is tis for `max_staleness` above 1.
    correction: CorrectionConfig | None = None
    #: Samples that reach `max_tokens`: null treats them as others.
    overlong: OverlongConfig | None = None
    #: What becomes of what inference draws while new weights come.
    sync: SyncMode = SyncMode.WAIT
    #: Ask for more groups in place of those whose rewards are all equal (dynamic sampling). False
    #: trains on them too: their advantages are 0, and they count in the weights.
    replace_flat: bool = True
    #: Up to this many groups a step.
    max_groups_per_step: int = Field(default=48, gt=0)
    #: GRPO ends after as many groups in a row without an advantage as this many steps of
    #: `max_groups_per_step` groups have.
    max_flat_steps: int = Field(default=3, gt=0)
    #: A group that no worker plays in this time is sent again; after this number of attempts it has
    #: failed. Time in the queue behind other groups does not count.
    group_timeout_s: float = Field(default=120.0, gt=0)
    group_attempts: int = Field(default=4, ge=1)
    #: This number of groups in a row without a score stops the run: something is down.
    max_failed_groups: int = Field(default=32, gt=0)
    #: Inference and trainer may differ by so much in the log-probability of a token, on average.
    max_mismatch_nats: float = Field(default=0.3, gt=0)
    checkpoint_every: int = Field(default=10, gt=0)
    #: Null measures nothing before GRPO.
    signal_check: SignalCheckConfig | None = SignalCheckConfig()
    #: Train with switches that cannot act, which are refused otherwise.
    allow_inert: bool = False

    @field_validator("correction", mode="before")
    @classmethod
    def _kind_alone(cls, value: Any) -> Any:
        """Take a kind alone as the correction with its own bounds."""
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _old_tokens_are_corrected(cls, values: Any) -> Any:
        """Fill in `correction`, so that the run's own config.json has it."""
        if not isinstance(values, dict) or {"correction", *_CLIPS} & values.keys():
            return values
        staleness, name = values.get("max_staleness", 1), values.get("loss", "dapo")
        loss = LOSSES.get(name) if isinstance(name, str) else None
        is_stale = isinstance(staleness, int) and staleness > 1
        if is_stale and loss is not None and loss.is_corrected:
            return values | {"correction": {"kind": "tis", "high": 2.0}}
        return values

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.max_groups_per_step < self.groups_per_step:
            raise ValueError("max_groups_per_step must be at least groups_per_step")
        if self.hard_staleness < self.max_staleness:
            raise ValueError("hard_staleness must be at least max_staleness")
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clip_high:
            raise ValueError("dual_clip must be above 1 + clip_high")
        if self.overlong is not None and (self.overlong.tokens or 0) > self.max_tokens:
            raise ValueError("overlong.tokens must be at most max_tokens")
        return self
