"""The HTTP routes for uploading weights in chunks."""

from typing import Annotated

from fastapi import FastAPI, Header, Request

from assay_inference.serving.served_policy import ServedPolicy
from assay_inference.weights.uploads import Uploads
from assay_shared.service.auth import needs
from assay_shared.service.bodies.route import up_to
from assay_shared.settings.api_keys import Scope
from assay_shared.types import Upload, UploadRequest


def add_routes(app: FastAPI) -> None:
    """Add the routes; `app.state` has uploads and policy once the app has started."""

    @app.post(
        "/v1/weights/uploads",
        openapi_extra=needs(Scope.INFERENCE_PUBLISH, action="begin upload") | up_to(2**20),
    )
    async def begin(request: UploadRequest) -> Upload:
        """Announce the files of a checkpoint; the answer lists the chunks to send."""
        uploads: Uploads = app.state.uploads
        policy: ServedPolicy = app.state.policy
        return await uploads.begin(request, policy.base)

    @app.get("/v1/weights/uploads/{upload}", openapi_extra=needs(Scope.INFERENCE_PUBLISH))
    async def state(upload: str) -> Upload:
        """Return the missing chunks of an upload."""
        uploads: Uploads = app.state.uploads
        return uploads.state(upload)

    @app.put(
        "/v1/weights/uploads/{upload}/{file}/{chunk}", openapi_extra=needs(Scope.INFERENCE_PUBLISH)
    )
    async def put(
        request: Request,
        upload: str,
        file: str,
        chunk: int,
        x_chunk_sha256: Annotated[str, Header()],
        x_chunk_delta: Annotated[bool, Header()] = False,
    ) -> dict[str, str]:
        """Send a chunk, or with `x-chunk-delta: true` its difference from the base's."""
        uploads: Uploads = app.state.uploads
        body = await request.body()
        await uploads.put(upload, file, chunk, body, x_chunk_sha256, is_delta=x_chunk_delta)
        return {"status": "stored"}
