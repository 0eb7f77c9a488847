"""What inference reads from the environment."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from assay_shared.errors import ConfigError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Priority


class InferenceSettings(ServiceSettings):
    """`ASSAY_INFERENCE_*`, beside what all services read."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    inference_engine: Literal["transformers", "vllm", "sglang", "replicas"] = "transformers"
    #: For the engine `replicas`: http://host:port, or dns+http://name:port for all addresses of the
    #: name, divided by commas.
    inference_replicas: str = ""
    #: Leading token ids of a prompt by which its replica is chosen.
    inference_prefix_tokens: int = Field(default=256, ge=1)
    #: A replica that has more than so many times the mean in hand is passed over.
    inference_replica_spread: float = Field(default=1.25, ge=1)
    #: Engine processes of this service, each with the whole model. For vLLM and SGLang.
    inference_processes: int = Field(default=1, ge=1, le=64)
    #: GPUs of these processes: one entry each, divided by commas, of ids joined by plus signs.
    inference_devices: str = ""
    #: Checkpoint folder to serve from the start, as version 0; without it, the first update does.
    inference_model: Path | None = None
    #: Folders within which an announced folder has to lie, divided by commas: beside ASSAY_RUNS,
    #: and the folder that ASSAY_INFERENCE_MODEL is in.
    inference_weight_roots: str = ""
    #: Name that OpenAI clients ask for.
    inference_model_name: str = "policy"
    #: Sequences that are decoded together.
    inference_max_sequences: int = Field(default=256, gt=0)
    #: Sequences that may wait for that; more get 429.
    inference_max_waiting: int = Field(default=4096, ge=0)
    #: Sequences that the engine gets beyond those, as a share of them: where some samples of a
    #: request end early, others are at hand to take their place.
    inference_ahead_share: float = Field(default=1.0, ge=0)
    #: Who comes first where requests wait.
    inference_priorities: str = "evaluation,interactive,training"
    #: Of what is drawn, and of the places in the queue, what each class keeps against the others.
    inference_reserved_share: float = Field(default=0.1, ge=0, le=0.3)
    #: A pause ends by itself after this.
    inference_max_pause_s: float = Field(default=600.0, gt=0)
    #: Bytes of keys and values of all sequences that are drawn together, with what a step copies of
    #: them; half of what is free beside a second version of the weights where it is not set. For
    #: transformers alone.
    inference_cache_bytes: int | None = Field(default=None, gt=0)
    #: cpu, cuda, cuda:1, mps; the best there is where it is not set. For transformers alone.
    inference_device: str | None = None
    #: Where uploaded weights are kept; a temporary folder where it is not set.
    inference_upload_folder: Path | None = None
    #: Uploaded weights kept at once: two versions, those that are served and those that come.
    inference_upload_max_bytes: int = Field(default=256 * 2**30, gt=0)
    #: Size of a chunk; one has to fit in the largest request body.
    inference_upload_chunk_bytes: int = Field(default=8 * 2**20, ge=4096)
    #: An upload that gets nothing for so long is forgotten.
    inference_upload_idle_s: float = Field(default=600.0, gt=0)
    #: Time new weights wait for the sequences in hand. For vLLM and SGLang, as all that follows.
    inference_drain_timeout_s: float = Field(default=600.0, gt=0)
    #: vLLM's interpreter, in an environment of its own; the service's where it is not set.
    inference_vllm_python: Path | None = None
    #: More of vLLM's own options, as on a command line.
    inference_vllm_arguments: str = ""
    #: SGLang's interpreter, in an environment of its own; the service's where it is not set.
    inference_sglang_python: Path | None = None
    #: More of SGLang's own options, as on a command line.
    inference_sglang_arguments: str = ""
    #: Whether SGLang repeats samples of a seed, which costs it speed; else seeds are refused.
    inference_sglang_seeds: bool = True
    #: Time from the start of the child until it answers.
    inference_start_timeout_s: float = Field(default=600.0, gt=0)
    #: Time it may take to load new weights, and to compare them.
    inference_load_timeout_s: float = Field(default=120.0, gt=0)
    #: Time vLLM's workers may take to fetch weights directly from a trainer, and to load them.
    inference_transfer_timeout_s: float = Field(default=60.0, gt=0)
    #: Time a request may wait for its turn unless it says less, and the child may take for it then.
    inference_request_timeout_s: float = Field(default=1800.0, gt=0)
    #: How often its health is looked at, and how long its answer may take.
    inference_health_interval_s: float = Field(default=2.0, gt=0)
    inference_health_timeout_s: float = Field(default=20.0, gt=0)
    #: Starts that may follow a failure within the window; then the service is not ready.
    inference_max_restarts: int = Field(default=5, ge=0)
    inference_restart_window_s: float = Field(default=1800.0, gt=0)

    @field_validator("inference_priorities")
    @classmethod
    def _all_once(cls, value: str) -> str:
        if sorted(value.split(",")) != sorted(Priority):
            raise ValueError(f"name each once, divided by commas: {','.join(Priority)}")
        return value

    @property
    def priorities(self) -> tuple[Priority, ...]:
        """First comes first."""
        return tuple(Priority(name) for name in self.inference_priorities.split(","))

    @property
    def weight_roots(self) -> tuple[Path, ...]:
        """Folders that weights may be read from, without symbolic links in their paths."""
        named = [Path(root) for root in self.inference_weight_roots.split(",") if root.strip()]
        model = self.inference_model
        start = [] if model is None else [model.resolve().parent]
        return tuple(root.resolve() for root in [self.runs, *start, *named])

    def device_of(self, process: int) -> str:
        """What `inference_devices` says of one process."""
        entries = self.inference_devices.split(",")
        return entries[process] if self.inference_devices else ""

    def check_processes(self) -> None:
        """Raises ConfigError if several processes are asked for in a way that cannot be."""
        num_devices = len(self.inference_devices.split(","))
        if self.inference_engine not in ("vllm", "sglang"):
            raise ConfigError(
                "only vllm and sglang have processes", field="ASSAY_INFERENCE_PROCESSES"
            )
        if self.inference_devices and num_devices != self.inference_processes:
            raise ConfigError(
                f"there are {num_devices} entries for {self.inference_processes} processes",
                field="ASSAY_INFERENCE_DEVICES",
            )
