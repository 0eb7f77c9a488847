"""Any OpenAI-compatible server's model plays whole episodes, as a policy of our own does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from rich.console import Console

from assay_reward.or_debug.dataset.tasks import save
from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.or_debug.evaluate.chat_server import ChatPolicy, ChatServer
from assay_reward.or_debug.evaluate.evaluation import EvaluationPlan, play
from assay_reward.or_debug.evaluate.run import EvaluationRun, run
from assay_reward.or_debug.evaluate.summary import OVERALL
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import Role, SamplingParams
from tests.conftest import Serve
from tests.support.or_debug.planted import INSTANCE, REPAIR, make_or_task
from tests.support.policies import make_policy_folder
from tests.support.sglang.double import create_double, read_options
from tests.support.upstream import Upstream, says


@pytest.fixture(scope="module")
def players() -> Iterator[ReplayPool]:
    players = ReplayPool(solve_timeout_s=5.0)
    yield players
    players.close()


def turns_of(asked: dict[str, Any]) -> object:
    """Answer with the planted repair, by the length of the conversation."""
    roles = [message["role"] for message in asked["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    return says(REPAIR[len(roles) // 2])


def policy_of(server: ChatServer) -> ChatPolicy:
    return ChatPolicy("m", server, "m", SamplingParams(max_tokens=50, temperature=0.0, seed=7))


async def test_a_chat_server_plays_whole_episodes(serve: Serve, players: ReplayPool) -> None:
    upstream = Upstream(turns_of)
    async with ChatServer(serve(upstream.app) + "/v1", token="key", retry=NO_RETRY) as server:
        record = await play(make_or_task(), policy_of(server), players, 0)
    assert record.turns == REPAIR
    assert record.metrics["faithful"] == 1.0
    assert record.num_tokens == 20 * len(REPAIR)
    assert upstream.tokens == ["Bearer key"] * len(REPAIR)
    seeds = [asked["seed"] for asked in upstream.requests]
    assert len(set(map(str, seeds))) == len(REPAIR), "each reply has its own seed"


@pytest.mark.parametrize(
    "fault", [503, says("x", finish_reason="content_filter"), {"error": "boom"}, {"choices": []}]
)
async def test_a_fault_of_the_server_is_a_failure_and_no_miss(
    serve: Serve, players: ReplayPool, fault: object
) -> None:
    upstream = Upstream(fault)
    async with ChatServer(serve(upstream.app) + "/v1", retry=NO_RETRY) as server:
        record = await play(make_or_task(), policy_of(server), players, 0)
    assert record.failure is not None
    assert record.metrics == {}


@pytest.mark.parametrize(
    "told",
    [
        "a prompt of 753 tokens leaves room for 15 in a context of 768, not for 24",
        "Requested token count exceeds the model's maximum context length of 768 tokens.",
    ],
)
async def test_a_full_context_ends_the_episode_with_what_was_said(
    serve: Serve, players: ReplayPool, told: str
) -> None:
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def chat(body: dict[str, Any]) -> JSONResponse:
        if len(body["messages"]) > 1:
            return JSONResponse({"error": {"message": told}}, status_code=400)
        return JSONResponse(says("Action: DROP(c3)"))

    async with ChatServer(serve(app) + "/v1", retry=NO_RETRY) as server:
        record = await play(make_or_task(), policy_of(server), players, 0)
    assert record.failure is None
    assert record.metrics["faithful"] == 1.0


@pytest.mark.slow
def test_an_sglang_server_is_evaluated_by_its_address(serve: Serve, tmp_path: Path) -> None:
    """The server has a real tiny model; a conversation beyond its context ends the episode."""
    make_policy_folder(tmp_path / "policy")
    arguments = ["--model-path", str(tmp_path / "policy"), "--served-model-name", "tiny"]
    url = serve(create_double(read_options([*arguments, "--dtype", "float32"])))
    cell = tmp_path / "or" / "type_A_easy"
    cell.mkdir(parents=True)
    task = make_or_task(INSTANCE).model_copy(update={"role": Role.TEST, "prompt": "infeasible"})
    save([task], cell / "tasks.jsonl")
    asked = EvaluationRun(
        data=tmp_path / "or",
        policy=f"{url}/v1",
        output=tmp_path / "out",
        baselines=False,
        sampling=SamplingParams(max_tokens=8, temperature=0.0, seed=1),
        plan=EvaluationPlan(samples=2),
    )
    found = run(asked, Console(quiet=True)).of("tiny", OVERALL)
    assert found is not None
    assert (found.num_episodes, found.num_failed) == (2, 0)
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text())["asked"]
    assert written["policy"] == f"{url}/v1"
    assert len(written["tasks"]) == 64


async def test_a_server_with_several_models_asks_which_one(serve: Serve) -> None:
    upstream = Upstream(turns_of)

    @upstream.app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"data": [{"id": "a"}, {"id": "b"}]}

    async with ChatServer(serve(upstream.app) + "/v1", retry=NO_RETRY) as server:
        with pytest.raises(InvalidInput, match="which of the server's models. It has a, b"):
            await server.only_model()


def test_a_model_with_the_name_of_a_baseline_is_refused(serve: Serve, tmp_path: Path) -> None:
    """Both would have the same episodes' names in the files."""
    upstream = Upstream(turns_of)

    @upstream.app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"data": [{"id": "first_row"}]}

    task = make_or_task(INSTANCE).model_copy(update={"role": Role.TEST})
    save([task], tmp_path / "tasks.jsonl")
    policy = serve(upstream.app) + "/v1"
    asked = EvaluationRun(data=tmp_path / "tasks.jsonl", policy=policy, output=tmp_path / "out")
    with pytest.raises(ConfigError, match="the model is named 'first_row', as a baseline is"):
        run(asked, Console(quiet=True))


def test_a_model_is_chosen_of_a_server_alone(tmp_path: Path) -> None:
    asked = EvaluationRun(data=tmp_path, policy="probe", output=tmp_path / "out", model="m")
    with pytest.raises(ConfigError, match=r"ends with /v1 has models"):
        run(asked, Console(quiet=True))
