"""Client of the inference service: Generator and WeightSink over HTTP."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping

from pydantic import TypeAdapter, ValidationError

from assay_shared.clients.http import ServiceClient, Timeouts
from assay_shared.errors import ErrorBody, InternalFault, Unreachable, from_body
from assay_shared.telemetry.context import new_request_id, purpose, request_id
from assay_shared.types import (
    CheckedWeights,
    FolderWeights,
    GeneratedText,
    GenerateRequest,
    GenerateResponse,
    LogprobsRequest,
    PromptLogprobs,
    Upload,
    UploadRequest,
    WeightDigest,
    WeightStatus,
    WeightUpdate,
)

_GENERATED = TypeAdapter(GenerateResponse)
_PART: TypeAdapter[GeneratedText | GenerateResponse | ErrorBody] = TypeAdapter(
    GeneratedText | GenerateResponse | ErrorBody
)
_STATUS = TypeAdapter(WeightStatus)
_CHECKED = TypeAdapter(CheckedWeights)
_UPLOAD = TypeAdapter(Upload)
_STORED = TypeAdapter(dict[str, str])
#: Covers the queue and the batch; must stay below the time after which another worker gets the
#: rollout.
_GENERATE = Timeouts(read_s=1500.0, total_s=1500.0)
_LOOK_S = 60.0
_UPLOADS = "/v1/weights/uploads"
_DIGEST = TypeAdapter(WeightDigest)
_READ = TypeAdapter(PromptLogprobs)


class InferenceClient(ServiceClient):
    """Client of the policy: samples, log-probabilities, and weight updates."""

    service = "inference"

    def _headers(self) -> Mapping[str, str]:
        return purpose().headers()

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Return samples. While waiting, check the service's health every minute.

        A failed check cancels the request, so a dead service is noticed before the long timeout.
        """
        answer = asyncio.ensure_future(
            self._call("POST", "/v1/generate", request, _GENERATED, timeouts=_GENERATE)
        )
        try:
            while not (await asyncio.wait({answer}, timeout=_LOOK_S))[0]:
                await self.health()
            return answer.result()
        finally:
            answer.cancel()

    async def prompt_logprobs(self, request: LogprobsRequest) -> PromptLogprobs:
        """Return the policy's log-probability of each id."""
        return await self._call("POST", "/v1/logprobs", request, _READ, timeouts=_GENERATE)

    async def generate_stream(
        self, request: GenerateRequest, on_text: Callable[[int, str], None]
    ) -> GenerateResponse:
        """Return samples as `generate`; `on_text` gets each sample's index and new text.

        The call is never retried.
        """
        rest = b""
        identifier = request_id() or new_request_id()
        async with self._stream("POST", "/v1/generate/stream", request, identifier) as content:
            async for chunk in content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > self.max_answer_bytes:
                    raise InternalFault("a line that does not end", service=self.service)
                for line in lines:
                    part = self._part(line)
                    if isinstance(part, GenerateResponse):
                        return part
                    on_text(part.index, part.text)
        raise Unreachable("the answer breaks off", service=self.service)

    def _part(self, line: bytes) -> GeneratedText | GenerateResponse:
        try:
            part = _PART.validate_json(line)
        except ValidationError as error:
            raise InternalFault("a line that cannot be read", service=self.service) from error
        if isinstance(part, ErrorBody):
            raise from_body(part) or InternalFault(part.error.message, service=self.service)
        return part

    async def update_weights(self, update: WeightUpdate) -> WeightStatus:
        return await self._call("POST", "/v1/weights", update, _STATUS)

    async def weight_status(self) -> WeightStatus:
        return await self._call("GET", "/v1/weights", None, _STATUS)

    async def check_weights(self, source: FolderWeights) -> CheckedWeights:
        """Return the sizes of a checkpoint that inference could serve; it loads nothing."""
        return await self._call("POST", "/v1/weights/check", source, _CHECKED)

    async def begin_upload(self, request: UploadRequest) -> Upload:
        return await self._call("POST", _UPLOADS, request, _UPLOAD)

    async def upload_state(self, upload: str) -> Upload:
        return await self._call("GET", f"{_UPLOADS}/{upload}", None, _UPLOAD)

    async def put_chunk(
        self, upload: str, file: str, chunk: int, body: bytes, *, is_delta: bool = False
    ) -> None:
        """Send a chunk of a file, or its difference from the chunk of the base."""
        headers = {
            "x-chunk-sha256": hashlib.sha256(body).hexdigest(),
            "x-chunk-delta": str(is_delta).lower(),
        }
        await self._call("PUT", f"{_UPLOADS}/{upload}/{file}/{chunk}", body, _STORED, headers)

    async def weight_digest(self) -> WeightDigest:
        return await self._call("GET", "/v1/weights/digest", None, _DIGEST)
