"""Inference's settings, read from environment variables."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from assay_shared.errors import ConfigError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Priority


class InferenceSettings(ServiceSettings):
    """`ASSAY_INFERENCE_*` variables, in addition to the settings of all services."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    inference_engine: Literal["transformers", "vllm", "sglang", "replicas"] = "transformers"
    #: For the engine `replicas`: http://host:port, or dns+http://name:port for all addresses of the
    #: name, separated by commas.
    inference_replicas: str = ""
    #: Number of a prompt's leading token ids that choose its replica.
    inference_prefix_tokens: int = Field(default=256, ge=1)
    #: A replica with more requests in flight than this multiple of the mean is passed over.
    inference_replica_spread: float = Field(default=1.25, ge=1)
    #: Engine processes of this service, each with the whole model. For vLLM and SGLang.
    inference_processes: int = Field(default=1, ge=1, le=64)
    #: GPUs of these processes: an entry for each process, separated by commas; the ids of an entry
    #: are joined by plus signs.
    inference_devices: str = ""
    #: Checkpoint folder to serve from the start, as version 0. Default: wait for the first update.
    inference_model: Path | None = None
    #: Folders that may contain an announced folder, separated by commas. ASSAY_RUNS and the parent
    #: of ASSAY_INFERENCE_MODEL are always included.
    inference_weight_roots: str = ""
    #: Model name in requests of OpenAI clients.
    inference_model_name: str = "policy"
    #: Sequences decoded together.
    inference_max_sequences: int = Field(default=256, gt=0)
    #: Sequences that may wait in the queue; more get 429.
    inference_max_waiting: int = Field(default=4096, ge=0)
    #: Further sequences given to the engine, as a share of those decoded together: if some samples
    #: of a request end early, others can take their place at once.
    inference_ahead_share: float = Field(default=1.0, ge=0)
    #: Priority classes of waiting requests, first class first.
    inference_priorities: str = "evaluation,interactive,training"
    #: Share of the sampled tokens, and of the places in the queue, reserved for each class.
    inference_reserved_share: float = Field(default=0.1, ge=0, le=0.3)
    #: Longest pause; then it ends on its own.
    inference_max_pause_s: float = Field(default=600.0, gt=0)
    #: Bytes for the keys and values of all sequences sampled together, including the copies made in
    #: a step. Default: half of the memory left free by a second version of the weights. Only for
    #: transformers.
    inference_cache_bytes: int | None = Field(default=None, gt=0)
    #: cpu, cuda, cuda:1, mps. Default: the best available. Only for transformers.
    inference_device: str | None = None
    #: Folder for uploaded weights. Default: a temporary folder.
    inference_upload_folder: Path | None = None
    #: Maximum bytes of uploaded weights: two versions, the served and the arriving one.
    inference_upload_max_bytes: int = Field(default=256 * 2**30, gt=0)
    #: Size of a chunk; it must fit in the largest request body.
    inference_upload_chunk_bytes: int = Field(default=8 * 2**20, ge=4096)
    #: An upload that receives nothing for this time is removed.
    inference_upload_idle_s: float = Field(default=600.0, gt=0)
    #: Time new weights wait for the sequences in flight. This and all following settings are for
    #: vLLM and SGLang.
    inference_drain_timeout_s: float = Field(default=600.0, gt=0)
    #: vLLM's interpreter, in a separate environment. Default: the service's own interpreter.
    inference_vllm_python: Path | None = None
    #: More of vLLM's own options, as on a command line.
    inference_vllm_arguments: str = ""
    #: SGLang's interpreter, in a separate environment. Default: the service's own interpreter.
    inference_sglang_python: Path | None = None
    #: More of SGLang's own options, as on a command line.
    inference_sglang_arguments: str = ""
    #: True: SGLang repeats the samples of a seed, at lower speed. False: requests with a seed are
    #: refused.
    inference_sglang_seeds: bool = True
    #: Time from the start of the child process until it answers.
    inference_start_timeout_s: float = Field(default=600.0, gt=0)
    #: Time for loading new weights and comparing them.
    inference_load_timeout_s: float = Field(default=120.0, gt=0)
    #: Time for vLLM's workers to fetch weights directly from a trainer and to load them.
    inference_transfer_timeout_s: float = Field(default=60.0, gt=0)
    #: Longest wait of a request for its turn, unless the request sets a deadline; then also the
    #: longest time of the child for the request.
    inference_request_timeout_s: float = Field(default=1800.0, gt=0)
    #: Interval of the child's health checks, and the time limit of an answer.
    inference_health_interval_s: float = Field(default=2.0, gt=0)
    inference_health_timeout_s: float = Field(default=20.0, gt=0)
    #: Maximum restarts after failures within the window; after more, the service is not ready.
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
        """The priority classes, first class first."""
        return tuple(Priority(name) for name in self.inference_priorities.split(","))

    @property
    def weight_roots(self) -> tuple[Path, ...]:
        """Allowed parent folders of weights, without symbolic links in their paths."""
        named = [Path(root) for root in self.inference_weight_roots.split(",") if root.strip()]
        model = self.inference_model
        start = [] if model is None else [model.resolve().parent]
        return tuple(root.resolve() for root in [self.runs, *start, *named])

    def device_of(self, process: int) -> str:
        """Return the entry of a process in `inference_devices`."""
        entries = self.inference_devices.split(",")
        return entries[process] if self.inference_devices else ""

    def check_processes(self) -> None:
        """Raise ConfigError if the engine cannot have several processes, or their devices do not
        match.
        """
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
