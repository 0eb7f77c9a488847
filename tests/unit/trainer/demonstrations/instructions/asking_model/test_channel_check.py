"""What a raw prompt's ids have to be."""

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.types import GenerateRequest, GenerateResponse, PolicyVersion
from assay_trainer.demonstrations.instructions.asking_model.channel_check import (
    ChannelCheck,
    check_channel,
)
from assay_trainer.verification.model_tokens import ModelTokens
from tests.support.policies import make_llama_tokenizer

TOKENS = ModelTokens(make_llama_tokenizer(), frozenset())
CHECK = ChannelCheck(TOKENS)


def test_the_ids_of_the_prompt_pass() -> None:
    ids = TOKENS.own_ids("Return x plus 1.")
    sent = CHECK.checked("Return x plus 1.", ids)
    assert sent is not None
    assert (sent.num_tokens, sent.has_bos) == (len(ids), True)


def test_a_control_token_or_other_ids_are_refused() -> None:
    ids = TOKENS.own_ids("Return x.")
    token = TOKENS.planted()
    assert token is not None
    with pytest.raises(InvalidInput, match="with the control tokens"):
        CHECK.checked("Return x.", [*ids, token])
    with pytest.raises(InvalidInput, match="with other ids from"):
        CHECK.checked("Return x.", ids[:-1])


def test_what_is_not_checked_says_why() -> None:
    check = ChannelCheck(not_checked="a server tells no ids")
    assert check.checked("Return x.", ()) is None
    assert check.facts([]) == {"verdict": "NOT_CHECKED", "reason": "a server tells no ids"}


class Templating:
    """Puts words around each text, as a misconfigured engine does."""

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        text = request.prompt or "".join(one.content for one in request.messages or ())
        completion = {
            "token_ids": (5,),
            "logprobs": (0.0,),
            "text": "x",
            "finish_reason": "stop",
            "policy": {"version": 1, "digest": "d"},
        }
        ids = tuple(TOKENS.own_ids(f"Question: {text}\nAnswer:"))
        return GenerateResponse.model_validate(
            {"prompt_token_ids": ids, "completions": [completion]}
        )


async def test_an_engine_that_adds_a_template_is_found_before_anything_is_sampled() -> None:
    with pytest.raises(InvalidInput, match="NOT_CLEAN"):
        await check_channel(Templating(), TOKENS, PolicyVersion(version=1, digest="d"))
