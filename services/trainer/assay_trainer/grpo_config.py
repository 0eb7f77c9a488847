"""The settings of GRPO in the run file."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from assay_shared.settings.run_file import Config
from assay_shared.types import Normalisation, SyncMode

#: Texts that end a reply and are not part of it: the first line after a function, say.
Stops = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=8)]
_CLIPS = ("clip_low", "clip_high", "dual_clip")
#: The losses that clip a token's ratio, or truncate it.
_CLIPPED = ("dapo", "grpo", "dr_grpo")


class SignalCheckConfig(Config):
    """GRPO is refused if a sample shows nothing to learn: see pipeline/signal_check.py."""

    #: Groups that are always played. Up to 192 are, while all rewards of each group are equal.
    num_groups: int = Field(default=32, ge=8, le=192)
    #: False records the sample and trains all the same.
    required: bool = True


class GRPOConfig(Config):
    """Group-relative policy optimisation (arXiv 2402.03300) with DAPO's choices (2503.14476)."""

    steps: int = Field(gt=0)
    groups_per_step: int = Field(default=16, gt=0)
    group_size: int = Field(default=8, ge=2, le=256)
    learning_rate: float = Field(default=3e-4, gt=0)
    warmup_steps: int = Field(default=3, ge=0)
    #: adamw_8bit has Adam's moments in 8 bits: see learner/network/optimiser.py.
    optimiser: Literal["adamw", "adamw_8bit"] = "adamw"
    max_grad_norm: float = Field(default=1.0, gt=0)
    #: Tokens of one forward and backward pass, prompts included; memory grows with them.
    tokens_per_pack: int = Field(default=16_384, gt=0)
    #: The form of the loss: see learner/objective.py.
    loss: Literal["dapo", "grpo", "dr_grpo", "gspo", "cispo"] = "dapo"
    clip_low: float = Field(default=0.2, gt=0)
    clip_high: float = Field(default=0.28, gt=0)
    #: The greatest ratio of a token with a negative advantage; without it, there is no bound.
    dual_clip: float | None = Field(default=None, gt=1)
    kl_weight: float = Field(default=0.0, ge=0)
    #: From rewards to advantages; a rubric may recommend one.
    normalise: Normalisation = Normalisation.GROUP
    #: Of one reply; a task of several turns has as many replies as it allows.
    max_tokens: int = Field(default=64, gt=0)
    stop: Stops = ()
    temperature: float = Field(default=1.0, gt=0)
    #: How many versions behind the weights that are updated a learnt token may be.
    max_staleness: int = Field(default=1, ge=0)
    #: A group with a token of more versions behind is dropped. Up to here, its tokens beyond
    #: `max_staleness` are left out of the loss.
    hard_staleness: int = Field(default=8, ge=0)
    #: The greatest importance weight of a token; the clip of the ratio is off then. Without it,
    #: the ratio to the engine that sampled is clipped. Where a run file has neither this nor a
    #: clip, it is 2 for `max_staleness` above 1.
    truncate: float | None = Field(default=None, ge=1)
    #: What becomes of what inference draws while new weights come.
    sync: SyncMode = SyncMode.WAIT
    #: Ask for more groups in place of those whose rewards are all equal, up to this many a step.
    max_groups_per_step: int = Field(default=48, gt=0)
    #: GRPO ends after this many steps in a row whose groups all have equal rewards.
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

    @model_validator(mode="before")
    @classmethod
    def _old_tokens_are_corrected(cls, values: Any) -> Any:
        """Fill in `truncate`, so that the run's own config.json has it."""
        if not isinstance(values, dict) or {"truncate", *_CLIPS} & values.keys():
            return values
        staleness, loss = values.get("max_staleness", 1), values.get("loss", "dapo")
        if loss in _CLIPPED and isinstance(staleness, int) and staleness > 1:
            return values | {"truncate": 2.0}
        return values

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.max_groups_per_step < self.groups_per_step:
            raise ValueError("max_groups_per_step must be at least groups_per_step")
        if self.hard_staleness < self.max_staleness:
            raise ValueError("hard_staleness must be at least max_staleness")
        if self.truncate is not None and self.loss not in _CLIPPED:
            raise ValueError(f"truncate goes with {', '.join(_CLIPPED)}, not with {self.loss}")
        for name in _CLIPS:
            is_set = getattr(self, name) != type(self).model_fields[name].default
            if is_set and self.loss == "cispo" and name != "clip_high":
                raise ValueError(f"{name} does nothing with loss cispo: leave it out")
            if is_set and self.truncate is not None:
                raise ValueError(f"{name} does nothing with truncate: leave one of them out")
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clip_high:
            raise ValueError("dual_clip must be above 1 + clip_high")
        return self
