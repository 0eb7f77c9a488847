"""Echoes of real servers' forms are read; an echo that cannot be right is never a score."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from assay_shared.clients import RetryBudget
from assay_shared.errors import InvalidInput
from assay_shared.types import Role
from assay_trainer.data.importers.choices import choice_example
from assay_trainer.evaluate.answers.echoes import echoed_logprobs, sum_of_logprobs, token_ends
from assay_trainer.evaluate.answers.likelihood import OptionText, ServerReader, read_task
from assay_trainer.evaluate.answers.server import OpenAIServer
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol
from tests.conftest import Serve

TASK = choice_example("q", "arc", Role.TEST, "What is blue?", ["grass", "the sky"], 1, {}).task
RAW = Protocol.model_validate({"kind": "likelihood", "prompt_format": "raw"})
NAN, INF = float("nan"), float("inf")
NOT_ECHOED = "does not echo the prompt"


def echo(tokens: list[str], values: list[Any], offsets: Any = None) -> dict[str, Any]:
    told = {"tokens": tokens, "token_logprobs": values, "text_offset": offsets}
    return {"choices": [{"text": "", "finish_reason": "length", "logprobs": told}]}


@pytest.mark.parametrize(
    ("tokens", "offsets", "text", "found"),
    [
        # OpenAI: the sampled token follows, and the offsets rise.
        (["What", ":", " sky", " x"], [0, 4, 5, 9], "What: sky", [4, 5, 9]),
        # vLLM: a special token begins the prompt, and moves the offsets.
        (["<s>", "What", ":", " sky", " x"], [0, 3, 7, 8, 12], "What: sky", [0, 4, 5, 9]),
        # SGLang: no offsets.
        (["What", ":", " sky", "\n"], [-1] * 4, "What: sky", [4, 5, 9]),
        # Tokens that were read alone, and lack their first space.
        (["What", ":", "", "A", "sky"], None, "What: A sky", [4, 5, 6, 7, 11]),
        ([" What", ":", "sky"], None, "What: sky", [4, 5, 9]),
        # Parts of characters.
        (["A", ":", " ", "\ufffd", "\ufffd", "国", "x"], None, "A: 中国", [1, 2, 3, 4, 4, 5]),
        (["A", ":", " \ufffd", "\ufffd国"], None, "A: 中国", [1, 2, 4, 5]),
        (["A", ":", "bytes: \\xe4\\xb8", "bytes:\\xad", " x"], None, "A: 中", [1, 2, 4, 4]),
        (["A", ":", "", " 中", " x"], None, "A: 中", [1, 2, 4, 4]),
        (["A", ":", " ", "\ufffd", "\ufffd", "\ufffd"], None, "A: 中", [1, 2, 3, 4, 4]),
        # The prompt itself has U+FFFD.
        (["A", ":", " \ufffd"], None, "A: \ufffd", [1, 2, 4]),
    ],
)
def test_the_forms_of_real_servers_are_read(
    tokens: list[str], offsets: list[int] | None, text: str, found: list[int]
) -> None:
    assert token_ends(tokens, text, num_sampled=1) == found
    prompt = text[: text.index(":") + 1]
    values = [None, *[-1.0] * (len(tokens) - 1)]
    num = sum(end > len(prompt) for end in found)
    assert echoed_logprobs(echo(tokens, values, offsets), prompt, text[len(prompt) :]) == (
        -float(num),
        num,
    )


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([" x"], "What: sky"),
        (["What", ":"], "What: sky"),
        (["What", ": sky", "!"], "What: the sky"),
        (["What", ":", "\ufffd", "\ufffd"], "What: sky"),
        (["a", "b", "c", "What", ": sky"], "What: sky"),
        ([], "What: sky"),
    ],
)
def test_tokens_that_do_not_spell_the_text_are_found(tokens: list[str], text: str) -> None:
    assert token_ends(tokens, text, num_sampled=1) is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([None], "has no log-probability"),
        ([-1.0, None], "has no log-probability"),
        (["-1"], "has no log-probability"),
        ([NAN], "log-probability nan, which is not a finite number of at most 0"),
        ([-INF], "log-probability -inf"),
        ([-(10**5000)], "log-probability -inf"),
        ([5.0], "log-probability 5, which"),
        ([-1e308, -1e308], "no finite sum"),
        ([], "no token"),
    ],
)
def test_a_log_probability_that_cannot_be_one_is_refused(values: list[Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        sum_of_logprobs(values, "model server")


def test_rounding_above_0_is_none() -> None:
    assert sum_of_logprobs([1e-7, -1.0], "model server") == (-1.0, 2)


def words(text: str) -> list[str]:
    first, *others = text.split(" ")
    return [first, *(f" {one}" for one in others)]


def planted(kind: str, prompt: str) -> dict[str, Any]:
    """Return a server's reply to a prompt with a fault in it."""
    tokens = words(prompt)
    values: list[Any] = [None, *[-1.0] * (len(tokens) - 1)]
    offsets = [sum(map(len, tokens[:place])) for place in range(len(tokens))]
    last: dict[str, Any] = {
        "null": None,
        "nan": NAN,
        "inf": -INF,
        "positive": 5.0,
        "text": "-1",
    }
    if kind in last:
        values[-1] = last[kind]
    if kind == "not echoed":
        tokens, values, offsets = [" x"], [-1.0], [0]
    if kind == "zeros":
        offsets = [0] * len(tokens)
    if kind == "fewer":
        values.pop()
    return echo(tokens, values, offsets)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("right", None),
        ("not echoed", NOT_ECHOED),
        ("zeros", "offsets of the tokens in the server's echo do not rise"),
        ("fewer", "tells no log-probabilities of a prompt"),
        ("null", "has no log-probability"),
        ("text", "has no log-probability"),
        ("nan", "log-probability nan"),
        ("inf", "log-probability -inf"),
        ("positive", "log-probability 5"),
    ],
)
async def test_a_server_with_a_fault_gives_a_failure_that_can_be_read_back(
    serve: Serve, tmp_path: Path, kind: str, reason: str | None
) -> None:
    app = FastAPI()

    @app.post("/v1/completions")
    async def complete(body: dict[str, Any]) -> Response:
        reply = planted(kind, body["prompt"])
        return Response(json.dumps(reply), media_type="application/json")  # with NaN as it is

    retry = RetryBudget(attempts=2, total_s=5.0, first_wait_s=0.01)
    async with OpenAIServer(serve(app) + "/v1", retry=retry) as server:
        found = await read_task(TASK, RAW, ServerReader(server, "m"))

    if reason is None:
        assert found.option_logprobs == {"A": -1.0, "B": -1.0}
        return
    assert found.outcome is None
    assert found.failure is not None
    assert reason in found.failure.message
    assert found.failure.service == "model server"
    folder = EvaluationFolder(tmp_path)
    folder.append_samples("s", [found])
    assert json.loads(folder.samples("s").read_text())["outcome"] is None


async def test_an_option_is_read_by_its_own_tokens(serve: Serve) -> None:
    app = FastAPI()

    @app.post("/v1/completions")
    async def complete(body: dict[str, Any]) -> dict[str, Any]:
        tokens = ["<s>", *words(body["prompt"]), " x"]
        values = [None, *(-float(place) for place in range(1, len(tokens)))]
        offsets = [sum(map(len, tokens[:place])) for place in range(len(tokens))]
        return echo(tokens, values, offsets)

    async with OpenAIServer(serve(app) + "/v1") as server:
        reader = ServerReader(server, "m")
        read = await reader.read(OptionText("one two", None, " three four"))
    assert read == (-3.0 - 4.0, 2)
