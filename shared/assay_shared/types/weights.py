"""Weights for inference to serve, and the proof of serving them."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from assay_shared.types.failure import Failure
from assay_shared.types.generation import PolicyVersion
from assay_shared.types.wire import Wire


class LogprobProbe(Wire):
    """A fixed sequence and the trainer's log-probabilities for it, to prove that weights landed.

    `logprobs[t]` belongs to `token_ids[t + 1]`. Loading fails if any log-probability of the engine
    differs by more than `tolerance * max(1, abs(logprob))` nats. If `tolerance` is not set, it
    follows from the arithmetic of trainer and engine: `dtype` is the type of the trainer's weights.
    """

    token_ids: tuple[int, ...] = Field(min_length=2)
    logprobs: tuple[float, ...]
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    tolerance: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _one_logprob_per_prediction(self) -> "LogprobProbe":
        if len(self.logprobs) != len(self.token_ids) - 1:
            raise ValueError("logprobs must be one shorter than token_ids")
        return self


def _check_path(path: str) -> str:
    """Refuse paths no file system takes: with NUL, or over 255 bytes a name or 4,095 in all."""
    if "\0" in path:
        raise ValueError("must not hold the character NUL")
    if len(path.encode()) > 4095 or any(len(name.encode()) > 255 for name in path.split("/")):
        raise ValueError("must have at most 4095 bytes, and 255 in each name")
    return path


FolderPath = Annotated[str, Field(max_length=4095), AfterValidator(_check_path)]


class FolderWeights(Wire):
    """A checkpoint folder on a disk, or in a memory, shared by trainer and inference.

    The policy's digest is the SHA-256 of its files. If the version was announced before under the
    digest of a manifest, `files_digest` is the SHA-256 of the files instead.
    """

    kind: Literal["folder"] = "folder"
    path: FolderPath
    files_digest: str | None = None


class CheckedWeights(Wire):
    """A checkpoint that the engine can serve: its tensors, and its longest prompt with answer."""

    num_tensors: int
    max_length: int


class UploadedWeights(Wire):
    """A checkpoint folder uploaded whole."""

    kind: Literal["upload"] = "upload"
    upload: str


class AdapterWeights(Wire):
    """A LoRA adapter alone, as peft writes it, in the folder `path`.

    `base`: digest of the checkpoint it is for. It must be the full checkpoint served last. The
    digest of its policy is `checkpoint.adapter_digest`.
    """

    kind: Literal["adapter"] = "adapter"
    path: FolderPath
    base: str


class TensorSpec(Wire):
    """A tensor of a direct transfer: `dtype` as torch names it, and the fingerprint of all its data
    (`assay_shared.standalone.weight_transfer.fingerprint`) in 16 hexadecimal digits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Literal["float32", "bfloat16", "float16"]
    fingerprint: str = Field(pattern=r"^[0-9a-f]{16}$")


class DirectWeights(Wire):
    """The trainer's own memory; the engine's workers fetch the tensors from there.

    The trainer waits for the workers at `host` and `port`. `token` tells the trainer's meetings
    apart, and `announcement` counts the announcements from there. `ipc` is for a single GPU, `nccl`
    for several, `gloo` for everything else. The policy's digest is the SHA-256 of the manifest
    `tensors`. The trainer sends tensors in this order, in buckets of `bucket_bytes`.
    """

    kind: Literal["direct"] = "direct"
    transport: Literal["nccl", "ipc", "gloo"]
    host: str
    port: int = Field(gt=0, lt=65536)
    token: str = Field(min_length=16)
    announcement: int = Field(ge=0)
    bucket_bytes: int = Field(gt=0)
    tensors: tuple[TensorSpec, ...] = Field(min_length=1)


#: Where new weights come from.
WeightSource = Annotated[
    FolderWeights | UploadedWeights | AdapterWeights | DirectWeights, Field(discriminator="kind")
]


class UploadFile(Wire):
    """A file of an upload."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")
    num_bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class UploadRequest(Wire):
    """The files of a checkpoint to upload in chunks.

    `base` is the digest of the served version, if chunks may be differences from its files.
    Inference does not ask for files equal to the served version's.
    """

    files: tuple[UploadFile, ...] = Field(min_length=1, max_length=1024)
    base: str | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> "UploadRequest":
        if len({file.name for file in self.files}) < len(self.files):
            raise ValueError("two files have the same name")
        return self


class Upload(Wire):
    """The progress of an upload: the numbers of the missing chunks for each incomplete file.

    Chunk i is the bytes from i * `chunk_bytes`. `base` is null if inference takes no differences.
    """

    id: str
    chunk_bytes: int
    base: str | None
    missing: dict[str, tuple[int, ...]]


class SyncMode(StrEnum):
    """The treatment of sequences in flight when new weights arrive.

    `wait`: they are finished first. `restart`: they are dropped and sampled again from their
    prompt. `continue`: they keep their tokens and continue under the new version.
    """

    WAIT = "wait"
    RESTART = "restart"
    CONTINUE = "continue"


class WeightUpdate(Wire):
    """A request to inference to serve the weights of `source` as `policy`."""

    source: WeightSource
    policy: PolicyVersion
    probe: LogprobProbe | None = None
    mode: SyncMode = SyncMode.WAIT


class WeightReceiver(Wire):
    """The receivers of a direct transfer: for each worker its GPU's UUID, or cpu; and the type of
    their weights.
    """

    devices: tuple[str, ...]
    dtype: str


class WeightStatus(Wire):
    """The weights served by inference; `policy` is null until a checkpoint is loaded."""

    policy: PolicyVersion | None
    #: Null if the weights came directly from a trainer's memory.
    source: WeightSource | None = None
    #: Largest difference the last probe found, in nats.
    probe_difference: float | None = None
    load_time_s: float | None = None
    #: Tensors of the checkpoint compared with the engine's own, and tensors in all.
    num_compared: int | None = None
    num_tensors: int | None = None
    #: Seconds by phase of the load: start, drain, transfer, load, attest, resume.
    phases_s: dict[str, float] = {}
    #: For a router: the status of each replica; replicas with a failure get no requests.
    replicas: dict[str, "ReplicaStatus"] = {}
    #: Null if the engine takes folders only, or no engine has started yet.
    receiver: WeightReceiver | None = None

    @property
    def newest_version(self) -> int:
        """The highest version that is served, here or by a replica; 0 without one.

        A restarted router serves nothing, while its replicas still have their versions.
        """
        policies = (self.policy, *(replica.policy for replica in self.replicas.values()))
        return max((policy.version for policy in policies if policy is not None), default=0)


class ReplicaStatus(Wire):
    """The status of a replica behind a router: its weights, and a failure if it is skipped."""

    policy: PolicyVersion | None
    num_in_flight: int = 0
    failure: Failure | None = None


class WeightDigest(Wire):
    """A comparison of all the engine's tensors with the checkpoint's files or a trainer's manifest.

    Of `num_tensors`, `num_whole` were compared in every entry. For `num_sampled` more, a sample of
    entries was compared, because kernels keep them in their own layouts. `differing` names the
    tensors with a difference.
    """

    policy: PolicyVersion
    num_tensors: int
    num_whole: int
    num_sampled: int
    differing: tuple[str, ...]
    #: Seconds in the engine, which samples nothing meanwhile, and seconds to read the reference.
    engine_s: float
    reference_s: float
