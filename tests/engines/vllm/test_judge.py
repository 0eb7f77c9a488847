"""A judge in front of a real vLLM: random weights, useless unless constrained.

Needs a vLLM (`tests/support/vllm/interpreter.py`): starting it takes a minute.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from assay_judge.app import create_app
from assay_judge.settings import JudgeSettings
from assay_shared.clients import JudgeClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.types import Abstention, FailureClass, JudgeRequest, Label, Verdict
from tests.conftest import Serve
from tests.support.vllm.interpreter import NEEDS_VLLM, vllm_python
from tests.support.vllm.server import MODEL, START_TIMEOUT_S, VllmServer

NUM_ANSWERS = 24
REQUEST = JudgeRequest(
    question="What is 6 times 7?",
    answers=tuple(f"It is {n + 30}." for n in range(NUM_ANSWERS)),
    reference="42",
)
pytestmark = [
    NEEDS_VLLM,
    pytest.mark.slow,
    pytest.mark.timeout(START_TIMEOUT_S + 120),
]


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    server = VllmServer(vllm_python(), tmp_path_factory.mktemp("vllm"))
    yield server
    server.stop()


async def judge(
    vllm: VllmServer, serve: Serve, folder: Path, **options: object
) -> tuple[object, ...]:
    provider = {"kind": "openai", "name": "vllm", "base_url": f"{vllm.url}/v1", "model": MODEL}
    path = folder / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": [provider | options]}))
    url = serve(create_app(JudgeSettings(judge_config=path)))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        return (await client.judge(REQUEST)).judgements


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_constrained_every_reply_is_a_verdict(
    vllm: VllmServer, serve: Serve, tmp_path: Path, temperature: float
) -> None:
    judgements = await judge(
        vllm, serve, tmp_path, structured=True, max_tokens=512, temperature=temperature
    )
    labels = [one.label for one in judgements if isinstance(one, Verdict)]
    assert len(labels) == NUM_ANSWERS, judgements
    assert set(labels) <= set(Label)


async def test_unconstrained_no_reply_is_a_verdict(
    vllm: VllmServer, serve: Serve, tmp_path: Path
) -> None:
    judgements = await judge(vllm, serve, tmp_path, max_tokens=32, temperature=1.0, attempts=2)
    assert len(judgements) == NUM_ANSWERS
    for one in judgements:
        assert isinstance(one, Abstention)
        assert one.failure.failure_class is FailureClass.JUDGE
        assert one.failure.message.startswith("vllm: ")
