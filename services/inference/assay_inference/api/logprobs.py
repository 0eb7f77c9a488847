"""The HTTP route for the policy's log-probabilities of given token ids."""

from fastapi import FastAPI

from assay_inference.serving.generate import Generation
from assay_inference.tokenizer.texts import PROMPT_BYTES
from assay_shared.service.auth import needs
from assay_shared.service.bodies.route import up_to
from assay_shared.settings.api_keys import Scope
from assay_shared.types import LogprobsRequest, PromptLogprobs


def add_routes(app: FastAPI) -> None:
    """Add the route; `app.state` has the generation once the app has started."""

    @app.post("/v1/logprobs", openapi_extra=needs(Scope.INFERENCE_GENERATE) | up_to(PROMPT_BYTES))
    async def logprobs(request: LogprobsRequest) -> PromptLogprobs:
        """Return the log-probability of each token id given the ids before it, at temperature 1."""
        front: Generation = app.state.front
        if request.token_ids is not None:
            return await front.prompt_logprobs(list(request.token_ids), request.top_logprobs)
        ids, continues_at = await front.encode_continued(request)
        found = await front.prompt_logprobs(ids, request.top_logprobs)
        return found.model_copy(update={"continues_at": continues_at})
