"""verl's two forms of a reward function, with the reward service behind them."""

import inspect
import json
from types import ModuleType

import pytest

from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import InvalidInput, NotReady, Unreachable
from tests.conftest import Serve
from tests.support.examples import load_example
from tests.support.faulty_sandbox import create_faulty_sandbox

NOWHERE = "http://127.0.0.1:9"
CODE = json.dumps(
    {
        "rubric": "code.dense",
        "tests": [
            {"kind": "stdin", "stdin": "2", "expected_stdout": "4"},
            {"kind": "stdin", "stdin": "3", "expected_stdout": "6"},
        ],
    }
)
DOUBLE, FOUR = "```python\nprint(2 * int(input()))\n```", "print(4)"


@pytest.fixture
def verl() -> ModuleType:
    return load_example("verl_rubric")


@pytest.fixture
def url(serve: Serve) -> str:
    behind = serve(create_sandbox(SandboxSettings()))
    sandbox = serve(create_faulty_sandbox(behind, lambda program: "fail" in program))
    return serve(create_reward(RewardSettings(sandbox_url=sandbox, reward_retry_budget_s=0.1)))


async def test_one_answer_is_scored_as_the_naive_manager_calls(url: str, verl: ModuleType) -> None:
    assert inspect.iscoroutinefunction(verl.compute_score), "awaited among others, without a thread"
    for truth, solution, expected in (
        (CODE, DOUBLE, {"score": 1.0, "acc": 1.0}),
        (json.loads(CODE), FOUR, {"score": 0.5, "acc": 0.0}),
        (json.dumps({"reference": "4", "rubric": "math"}), "#### 5", {"score": 0.0, "acc": 0.0}),
    ):
        found = await verl.compute_score(
            data_source="mine",
            solution_str=solution,
            ground_truth=truth,
            extra_info={"question": "Double it.", "num_turns": None, "rollout_reward_scores": {}},
            url=url,
            reward_router_address="somewhere",
            reward_model_tokenizer=None,
        )
        assert found == expected


def test_a_batch_is_scored_as_the_batch_manager_calls(url: str, verl: ModuleType) -> None:
    found = verl.compute_scores(
        data_sources=["sums", "programs", "sums"],
        solution_strs=["so 4", FOUR, "so 5"],
        ground_truths=["4", CODE, 4],
        extra_infos=[{}, None, {"index": 3}],
        url=url,
        rubric={"sums": "math"},
    )
    assert found == [
        {"score": 1.0, "acc": 1.0},
        {"score": 0.5, "acc": 0.0},
        {"score": 0.0, "acc": 0.0},
    ]


@pytest.mark.slow
async def test_an_answer_that_was_not_scored_has_no_score(url: str, verl: ModuleType) -> None:
    with pytest.raises(NotReady, match="no reward"):
        await verl.compute_score("any", "# fail", CODE, None, url=url, give_up_after_s=0)
    with pytest.raises(Unreachable):
        await verl.compute_score("any", "4", "4", rubric="math", url=NOWHERE, give_up_after_s=0.1)
    with pytest.raises(InvalidInput, match="rubric: no rubric is given"):
        await verl.compute_score("other", "4", "4", url=url, rubric={"sums": "math"})


@pytest.mark.slow
def test_one_failure_is_no_score_for_a_batch(url: str, verl: ModuleType) -> None:
    with pytest.raises(NotReady, match="no reward"):
        verl.compute_scores(
            ["any"] * 2, [DOUBLE, "# fail"], [CODE] * 2, [None] * 2, url=url, give_up_after_s=0
        )
