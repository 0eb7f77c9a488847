"""What inference reads from the environment."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_shared.settings import ServiceSettings


class InferenceSettings(ServiceSettings):
    """`ASSAY_INFERENCE_*`, beside what all services read."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    inference_engine: Literal["transformers"] = "transformers"
    #: Checkpoint folder to serve from the start, as version 0; without it, the first update does.
    inference_model: Path | None = None
    #: Name that OpenAI clients ask for.
    inference_model_name: str = "policy"
    #: Sequences that are decoded together.
    inference_max_sequences: int = Field(default=256, gt=0)
    #: Sequences that may wait for that; more get 429.
    inference_max_waiting: int = Field(default=4096, ge=0)
    #: cpu, cuda, cuda:1, mps; the best there is where it is not set.
    inference_device: str | None = None
