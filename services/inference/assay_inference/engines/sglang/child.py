"""SGLang with a checkpoint in it."""

import asyncio
import time

from assay_inference.engines.child.child import EngineChild, Sync
from assay_inference.engines.engine import ResolvedUpdate
from assay_inference.engines.sglang.checksum import compare_all_checksums, compare_checksums
from assay_inference.engines.sglang.http import SglangApi
from assay_inference.engines.sglang.process import SglangProcess
from assay_inference.settings import InferenceSettings
from assay_inference.weights.attest import Arithmetic, Coverage
from assay_inference.weights.checkpoint import Checkpoint
from assay_shared.errors import ConfigError, InternalFault, InvalidInput, WeightsRefused
from assay_shared.types import DirectWeights, SamplingParams, SyncMode, WeightDigest

#: What is below, SGLang takes for 0.
_LEAST_TEMPERATURE = 1e-6
#: Hashing this much of a checkpoint takes some seconds of a core, on top of the engine's work.
_MAX_COMPARED_BYTES = 128 * 2**20
_WARM_UP = SamplingParams(max_tokens=2, top_p=0.9, seed=0)
_DTYPES = {"half": "float16", "float": "float32"}


class SglangReplica(EngineChild):
    """Its answers name the digest of the weights they were drawn under, and are held to it."""

    name = "SGLang"
    metrics_prefix = "sglang:"
    cache_use_metric = "sglang:token_usage"

    def __init__(self, settings: InferenceSettings, checkpoint: Checkpoint) -> None:
        super().__init__(settings, checkpoint)
        self._process = SglangProcess(settings, checkpoint)
        self._api = SglangApi(self._process.url, self._process.api_key, checkpoint.policy.digest)
        self._dtype = ""
        self._on_gpu = False

    @property
    def process(self) -> SglangProcess:
        return self._process

    @property
    def api(self) -> SglangApi:
        return self._api

    @property
    def arithmetic(self) -> Arithmetic:
        return Arithmetic(self._dtype, self._on_gpu)

    @classmethod
    def check_sampling(cls, sampling: SamplingParams, settings: InferenceSettings) -> None:
        """Refuse options that SGLang would silently ignore or misread."""
        seeds = settings.inference_sglang_seeds
        cases = {
            "temperature": (
                0 < sampling.temperature < _LEAST_TEMPERATURE,
                f"SGLang takes 0, or {_LEAST_TEMPERATURE:g} and above",
            ),
            "seed": (
                sampling.seed is not None and not seeds,
                "without ASSAY_INFERENCE_SGLANG_SEEDS, SGLang repeats no sample",
            ),
            "min_p": (
                sampling.min_p > 0 and seeds,
                "SGLang has no min_p with seeds: ASSAY_INFERENCE_SGLANG_SEEDS=false",
            ),
            "repetition_penalty": (
                sampling.repetition_penalty != 1,
                "SGLang's penalty leaves the prompt out; transformers and vllm count it",
            ),
            "stop_token_ids": (
                sampling.ignore_eos and bool(sampling.stop_token_ids),
                "under ignore_eos, SGLang stops at no token",
            ),
            "min_tokens": (
                sampling.min_tokens > 0 and bool(sampling.stop),
                "SGLang stops at a stop string before min_tokens",
            ),
            "structure": (
                sampling.structure is not None,
                "the engine sglang cannot hold an answer to a form yet; transformers and vllm can",
            ),
        }
        for name, (is_refused, reason) in cases.items():
            if is_refused:
                raise InvalidInput(reason, field=f"sampling.{name}")

    @classmethod
    def check_update(cls, update: ResolvedUpdate) -> None:
        if update.mode is not SyncMode.WAIT:
            raise InvalidInput("under sglang, updates wait for sequences in flight", field="mode")
        if isinstance(update.source, DirectWeights):
            raise InvalidInput("the engine sglang takes no weights directly", field="source.kind")

    async def _prepare(self, limit_s: float) -> int:
        info = await self.api.server_info(limit_s)
        if int(info["tp_size"]) * int(info["pp_size"]) * int(info["dp_size"]) > 1:
            raise ConfigError(
                "the weights of an SGLang on several GPUs cannot be compared yet",
                field="ASSAY_INFERENCE_SGLANG_ARGUMENTS",
                hint="run one replica per GPU",
            )
        kept_in = str(info["dtype"])
        self._dtype = _DTYPES.get(kept_in, kept_in)
        self._on_gpu = str(info["device"]).startswith("cuda")
        # The first draw compiles what the others use, and may take long for it.
        await self.api.generate([0], _WARM_UP, frozenset(), limit_s)
        # Where its cache holds less than the context, SGLang would cut a longer answer short.
        in_cache = info.get("max_total_num_tokens")
        length = await self.api.max_length(limit_s)
        return min(length, in_cache) if isinstance(in_cache, int) else length

    async def _load(self, checkpoint: Checkpoint, sync: Sync) -> None:
        limit_s = self._settings.inference_load_timeout_s
        folder = str(checkpoint.folder.resolve())
        try:
            with sync.phase("load"):
                await self.api.update_weights(folder, checkpoint.policy.digest, limit_s)
        except InternalFault as error:
            raise WeightsRefused(f"SGLang cannot load {folder}: {error.message}") from error

    async def _compare(self) -> Coverage:
        (found,) = await self.api.checksums(self._settings.inference_load_timeout_s)
        return await asyncio.to_thread(
            compare_checksums,
            self.checkpoint.layout,
            found,
            dtype=self._dtype,
            on_gpu=self._on_gpu,
            seed=self.checkpoint.policy.digest,
            max_bytes=_MAX_COMPARED_BYTES,
        )

    async def digest(self) -> WeightDigest:
        started = time.perf_counter()
        (found,) = await self.api.checksums(self._settings.inference_load_timeout_s)
        engine_s = time.perf_counter() - started
        same, differing = await asyncio.to_thread(
            compare_all_checksums,
            self.checkpoint.layout,
            found,
            dtype=self._dtype,
            on_gpu=self._on_gpu,
        )
        return WeightDigest(
            policy=self.checkpoint.policy,
            num_tensors=len(self.checkpoint.layout),
            num_whole=len(same | differing),
            num_sampled=0,
            differing=tuple(sorted(differing)),
            engine_s=engine_s,
            reference_s=time.perf_counter() - started - engine_s,
        )

    async def _ping(self, timeout_s: float) -> None:
        await self.api.generate_one_token(timeout_s)
