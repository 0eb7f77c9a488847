"""The trainer service's own variables."""

from pydantic import Field

from assay_shared.settings.environment import ServiceSettings


class TrainerSettings(ServiceSettings):
    """Each is set by the environment variable ASSAY_<NAME>."""

    #: Runs that the service trains at once; more wait. All publish to one inference, which serves
    #: one policy, so that more than one makes sense only for runs without GRPO and evaluation.
    trainer_max_running: int = Field(default=1, ge=1)
    #: Runs that may wait; more get 429.
    trainer_max_waiting: int = Field(default=64, ge=0)
