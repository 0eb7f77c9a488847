"""What the policy gives token ids that somebody else wrote, over HTTP."""

from fastapi import FastAPI

from assay_inference.front import Front
from assay_inference.texts import PROMPT_BYTES
from assay_shared.access import needs
from assay_shared.json_route import up_to
from assay_shared.scopes import Scope
from assay_shared.types import LogprobsRequest, PromptLogprobs


def add_routes(app: FastAPI) -> None:
    """Add the route; what draws is in `app.state` once the app has started."""

    @app.post("/v1/logprobs", openapi_extra=needs(Scope.INFERENCE_GENERATE) | up_to(PROMPT_BYTES))
    async def logprobs(request: LogprobsRequest) -> PromptLogprobs:
        """Read token ids: the log-probability of each after those before it, at temperature 1."""
        front: Front = app.state.front
        return await front.prompt_logprobs(list(request.token_ids), request.top_logprobs)
