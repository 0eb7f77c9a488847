"""Weights that inference is to serve, and the proof that it serves them."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from assay_shared.types.failure import Failure
from assay_shared.types.generation import PolicyVersion
from assay_shared.types.wire import Wire


class LogprobProbe(Wire):
    """A fixed sequence and the trainer's log-probabilities of it: proof that weights landed.

    `logprobs[t]` belongs to `token_ids[t + 1]`. Loading fails where the engine's own differs
    by more than `tolerance` nats, or so many times the log-probability where that is more than one
    nat. Without a tolerance, what both sides' arithmetic explains is allowed: `dtype` is that of
    the trainer's weights.
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
    """Refuse what no file system takes: NUL, and names over 255 bytes or 4,095 in all."""
    if "\0" in path:
        raise ValueError("must not hold the character NUL")
    if len(path.encode()) > 4095 or any(len(name.encode()) > 255 for name in path.split("/")):
        raise ValueError("must have at most 4095 bytes, and 255 in each name")
    return path


FolderPath = Annotated[str, Field(max_length=4095), AfterValidator(_check_path)]


class FolderWeights(Wire):
    """A checkpoint folder that inference can read: on a disk or in a memory that both share.

    The policy's digest is the SHA-256 of its files; or `files_digest` is, where the version was
    announced before under the digest of a manifest.
    """

    kind: Literal["folder"] = "folder"
    path: FolderPath
    files_digest: str | None = None


class UploadedWeights(Wire):
    """A checkpoint folder that was uploaded whole."""

    kind: Literal["upload"] = "upload"
    upload: str


class AdapterWeights(Wire):
    """A LoRA adapter alone, as peft writes it, in the folder `path`.

    `base`: digest of the checkpoint it is for, which has to be the last one that was served whole.
    The digest of its policy is `checkpoint.adapter_digest`.
    """

    kind: Literal["adapter"] = "adapter"
    path: FolderPath
    base: str


class TensorSpec(Wire):
    """One tensor of a direct transfer: `dtype` as torch names it, and the fingerprint of all of it
    (`assay_shared.standalone.weight_transfer.fingerprint`) in 16 hexadecimal digits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Literal["float32", "bfloat16", "float16"]
    fingerprint: str = Field(pattern=r"^[0-9a-f]{16}$")


class DirectWeights(Wire):
    """The trainer's own memory, from which the engine's workers fetch the tensors.

    The trainer waits for them at `host` and `port`; `token` tells its meetings apart, and
    `announcement` counts what is announced from there. `ipc` is for one GPU, `nccl` for several,
    `gloo` for all else. The policy's digest is the SHA-256 of the manifest `tensors`, which are
    sent in this order in buckets of `bucket_bytes`.
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
    """The files of a checkpoint that is to come in chunks.

    `base` is the digest of the served version, if chunks may be differences from its files; those
    of its files that are the same are not asked for.
    """

    files: tuple[UploadFile, ...] = Field(min_length=1, max_length=1024)
    base: str | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> "UploadRequest":
        if len({file.name for file in self.files}) < len(self.files):
            raise ValueError("two files have the same name")
        return self


class Upload(Wire):
    """How far an upload is: of each file that is not whole, the numbers of the missing chunks.

    Chunk i is the bytes from i * `chunk_bytes`. `base` is null where no difference is taken.
    """

    id: str
    chunk_bytes: int
    base: str | None
    missing: dict[str, tuple[int, ...]]


class SyncMode(StrEnum):
    """What becomes of the sequences in hand when new weights come.

    `wait`: they are finished first. `restart`: they are given up and drawn anew from their prompt.
    `continue`: they keep the tokens they have and go on under the new version.
    """

    WAIT = "wait"
    RESTART = "restart"
    CONTINUE = "continue"


class WeightUpdate(Wire):
    """Ask inference to serve what `source` holds as `policy`."""

    source: WeightSource
    policy: PolicyVersion
    probe: LogprobProbe | None = None
    mode: SyncMode = SyncMode.WAIT


class WeightReceiver(Wire):
    """What a direct transfer has to reach: of each worker its GPU's UUID, or cpu; and the type in
    which they keep weights.
    """

    devices: tuple[str, ...]
    dtype: str


class WeightStatus(Wire):
    """What inference serves; `policy` is null until a checkpoint is loaded."""

    policy: PolicyVersion | None
    #: Null for what came directly from a trainer's memory.
    source: WeightSource | None = None
    #: Largest difference the last probe found, in nats.
    probe_difference: float | None = None
    load_time_s: float | None = None
    #: Tensors of the checkpoint that were compared with the engine's own, and all of them.
    num_compared: int | None = None
    num_tensors: int | None = None
    #: Seconds by phase of the load: start, drain, transfer, load, attest, resume.
    phases_s: dict[str, float] = {}
    #: Of a router, by replica; those with a failure get no requests.
    replicas: dict[str, "ReplicaStatus"] = {}
    #: Null where the engine takes folders alone, or none has started yet.
    receiver: WeightReceiver | None = None


class ReplicaStatus(Wire):
    """What one replica behind a router serves, and why it is passed over where it is."""

    policy: PolicyVersion | None
    num_in_flight: int = 0
    failure: Failure | None = None


class WeightDigest(Wire):
    """All that the engine holds, compared with the checkpoint's files or the trainer's manifest.

    Of `num_tensors`, every entry of `num_whole` was compared, and of `num_sampled` more a sample:
    kernels keep them in layouts of their own. `differing` are those that are not as they should be.
    """

    policy: PolicyVersion
    num_tensors: int
    num_whole: int
    num_sampled: int
    differing: tuple[str, ...]
    #: Time in the engine, during which it draws nothing, and to read what it is compared with.
    engine_s: float
    reference_s: float
