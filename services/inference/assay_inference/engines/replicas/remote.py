"""A replica behind an address: another inference service, asked through our own client."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from prometheus_client import Metric

from assay_inference.engines.engine import Loaded, OnText, ResolvedUpdate
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient, Timeouts
from assay_shared.clients.http import NO_RETRY
from assay_shared.clients.weight_upload import upload_weights
from assay_shared.errors import InternalFault, InvalidInput
from assay_shared.types import (
    Completion,
    FolderWeights,
    GenerateRequest,
    LogprobsRequest,
    PolicyVersion,
    PromptLogprobs,
    SamplingParams,
    UploadedWeights,
    WeightReceiver,
    WeightStatus,
    WeightUpdate,
)

_CONNECT_TIMEOUT_S = 5.0


class _Client(InferenceClient):
    """A client without a limit of connections: admission bounds the requests."""

    max_connections = 0


class RemoteReplica:
    """Implements `assay_inference.engines.replicas.replica.Replica`."""

    def __init__(self, url: str, settings: InferenceSettings) -> None:
        def client(total_s: float) -> InferenceClient:
            limits = Timeouts(connect_s=_CONNECT_TIMEOUT_S, read_s=total_s, total_s=total_s)
            token = settings.token_of("inference")
            return _Client(url, token=token, timeouts=limits, retry=NO_RETRY)

        #: The replica sees no folder of this service: it is not asked to read one.
        self._uploads = settings.weight_transfer == "upload"
        self._open = AsyncExitStack()
        self._health = client(settings.inference_health_timeout_s)
        self._drawing = client(settings.inference_request_timeout_s)
        self._loading = client(
            settings.inference_drain_timeout_s
            + settings.inference_load_timeout_s
            + settings.inference_start_timeout_s  # its first weights start its engine
        )

    @property
    def receiver(self) -> WeightReceiver | None:
        return None

    async def open(self) -> None:
        for client in (self._health, self._drawing, self._loading):
            await self._open.enter_async_context(client)

    async def check(self) -> None:
        await self._health.health()

    async def served(self) -> PolicyVersion | None:
        policy = (await self._health.weight_status()).policy
        if policy is not None:
            await self._health.ready()
        return policy

    async def load(self, update: ResolvedUpdate) -> Loaded:
        status = await self._announce(update)
        return Loaded(
            probe_difference=status.probe_difference,
            load_time_s=status.load_time_s or 0.0,
            num_compared=status.num_compared,
            num_tensors=status.num_tensors,
            phases_s=status.phases_s,
        )

    async def _announce(self, update: ResolvedUpdate) -> WeightStatus:
        """Announce a folder, or an upload of it if the replica may not read the folder."""
        source = update.source
        if not isinstance(source, FolderWeights):
            return await self._loading.update_weights(update)
        if not self._uploads:
            try:
                return await self._loading.update_weights(update)
            except InvalidInput as error:
                if error.field != "source.path":
                    raise
        uploaded = await upload_weights(self._loading, Path(source.path))
        return await self._loading.update_weights(
            WeightUpdate(
                source=UploadedWeights(upload=uploaded.id),
                policy=update.policy,
                probe=update.probe,
                mode=update.mode,
            )
        )

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None
    ) -> list[Completion]:
        request = GenerateRequest(token_ids=tuple(prompt_token_ids), sampling=sampling)
        if on_text is None:
            answer = await self._drawing.generate(request)
        else:
            answer = await self._drawing.generate_stream(request, on_text)
        if list(answer.prompt_token_ids) != prompt_token_ids:
            raise InternalFault("a replica read other token ids than those that were sent")
        return list(answer.completions)

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        request = LogprobsRequest(token_ids=tuple(token_ids), top_logprobs=num_top)
        return await self._drawing.prompt_logprobs(request)

    def cache_use(self) -> float | None:
        return None

    def own_metrics(self) -> Iterable[Metric]:
        return ()

    async def close(self) -> None:
        await self._open.aclose()
