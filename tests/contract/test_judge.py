"""The judge over HTTP, with a real upstream that misbehaves: never a verdict that nobody gave."""

import json
from pathlib import Path

import pytest
import yaml

from assay_judge.app import create_app
from assay_judge.settings import JudgeSettings
from assay_shared.clients import JudgeClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import Abstention, FailureClass, JudgeRequest, Label, Verdict
from tests.conftest import Serve
from tests.upstream import Upstream, says, verdict

REQUEST = JudgeRequest(question="What is 6 times 7?", answers=("42", "41"), reference="42")


def config_file(folder: Path, *chain: dict[str, object]) -> Path:
    path = folder / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": list(chain)}))
    return path


def provider(url: str, name: str = "primary", **changes: object) -> dict[str, object]:
    basics = {"kind": "openai", "name": name, "base_url": f"{url}/v1", "model": "m"}
    return basics | {"timeout_s": 1.0, "attempts": 2} | changes


async def ask(serve: Serve, path: Path | None, request: JudgeRequest = REQUEST) -> list[object]:
    url = serve(create_app(JudgeSettings(judge_config=path)))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        return list((await client.judge(request)).judgements)


async def test_without_any_llm_the_reference_decides(serve: Serve) -> None:
    judgements = await ask(serve, None)
    assert [j.label for j in judgements if isinstance(j, Verdict)] == [
        Label.CORRECT,
        Label.INCORRECT,
    ]


async def test_a_model_is_asked_with_everything_it_needs(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-word")
    upstream = Upstream(verdict("CORRECT"))
    url = serve(upstream.app)
    path = config_file(tmp_path, provider(url, api_key_env="MY_KEY"))
    one = JudgeRequest(question="Q {x}", answers=("A",), reference=None)
    (judgement,) = await ask(serve, path, one)
    assert isinstance(judgement, Verdict)
    assert (judgement.judge, judgement.reason) == ("primary", "planted")
    assert judgement.template is not None
    assert upstream.tokens == ["Bearer secret-word"]
    prompt = json.dumps(upstream.requests[0]["messages"])
    assert "Q {x}" in prompt
    assert "(none is known)" in prompt


BAD_REPLIES = {
    "empty content": says(""),
    "null content": says(None),
    "cut off": says('{"verdict": "COR', "length"),
    "prose": says("I think it is correct."),
    "wrong schema": {"something": "else"},
    "no choices": {"choices": []},
    "rate limit": 429,
    "server error": 500,
    "bad gateway": 502,
    "bad request": 400,
    "wrong key": 401,
    "silence": "slow",
}


@pytest.mark.parametrize("reply", BAD_REPLIES.values(), ids=BAD_REPLIES)
async def test_a_provider_that_fails_never_yields_a_verdict(
    serve: Serve, tmp_path: Path, reply: object
) -> None:
    upstream = Upstream(reply)
    path = config_file(tmp_path, provider(serve(upstream.app)))
    judgements = await ask(serve, path)
    assert len(judgements) == 2
    for judgement in judgements:
        assert isinstance(judgement, Abstention)
        assert judgement.failure.failure_class is FailureClass.JUDGE
        assert judgement.failure.message.startswith("primary: ")


@pytest.mark.parametrize("reply", BAD_REPLIES.values(), ids=BAD_REPLIES)
async def test_the_next_provider_judges_the_whole_group(
    serve: Serve, tmp_path: Path, reply: object
) -> None:
    failing = Upstream(verdict("CORRECT"), reply)  # one answer is judged, the other is not
    path = config_file(tmp_path, provider(serve(failing.app), attempts=1), {"kind": "reference"})
    judgements = await ask(serve, path)
    assert [j.judge for j in judgements if isinstance(j, Verdict)] == ["reference"] * 2


async def test_a_bad_reply_is_asked_again_and_differently(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(says(None), verdict("INCORRECT"))
    path = config_file(tmp_path, provider(serve(upstream.app), attempts=3))
    one = JudgeRequest(question="q", answers=("a",), reference="r")
    (judgement,) = await ask(serve, path, one)
    assert isinstance(judgement, Verdict)
    assert judgement.label is Label.INCORRECT
    first, second = upstream.requests
    assert (first["temperature"], second["temperature"]) == (0.0, 0.7)
    assert second["max_tokens"] == 2 * first["max_tokens"]  # type: ignore[operator]
    assert first["seed"] != second["seed"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"question": "q", "answers": ()}, "answers: .*at least 1 item"),
        ({"answers": ("a",)}, "question: Field required"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(
    serve: Serve, body: dict[str, object], message: str
) -> None:
    url = serve(create_app(JudgeSettings()))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        with pytest.raises(InvalidInput, match=message):
            await client.judge(JudgeRequest.model_construct(None, **body))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ([], "chain: .*at least 1 item"),
        ([{"kind": "opnai"}], "chain.0: .*'openai', 'reference'"),
        ([{"kind": "openai", "name": "a", "model": "m"}], "chain.0.openai.base_url: missing"),
        ([{"kind": "reference", "nme": "x"}], "chain.0.reference.nme: unknown key"),
    ],
)
def test_a_bad_configuration_stops_the_start(
    tmp_path: Path, chain: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        create_app(JudgeSettings(judge_config=config_file(tmp_path, *chain)))
