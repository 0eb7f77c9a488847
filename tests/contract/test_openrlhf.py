"""OpenRLHF's remote rewards, as its client sends and reads them."""

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from assay_reward.app import create_app as create_reward
from assay_reward.formats.openrlhf import answer_of
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import InvalidInput
from tests.conftest import Serve
from tests.support.faulty_sandbox import create_faulty_sandbox

PROMPT = "<|im_start|>user\nDouble it.<|im_end|>\n<|im_start|>assistant\n"
CASES = [{"kind": "stdin", "stdin": str(n), "expected_stdout": str(2 * n)} for n in (2, 3)]
CODE = json.dumps({"tests": CASES, "rubric": "code.dense"})
DOUBLE, FOUR = "```python\nprint(2 * int(input()))\n```", "print(4)"


@pytest.fixture
def broken() -> set[str]:
    """Programs in here make the sandbox fail."""
    return set()


@pytest.fixture
def url(serve: Serve, broken: set[str]) -> str:
    behind = serve(create_sandbox(SandboxSettings()))
    fails = lambda program: any(word in program for word in broken)  # noqa: E731
    sandbox: FastAPI = create_faulty_sandbox(behind, fails)
    settings = RewardSettings(sandbox_url=serve(sandbox), reward_retry_budget_s=0.1)
    return serve(create_reward(settings)) + "/get_reward"


def ask(
    url: str, *rows: tuple[str, Any], rubric: str | None = None, end: str = "<|im_end|>"
) -> httpx.Response:
    """Ask for answers with their labels, as the client does."""
    body = {
        "query": [PROMPT + answer + end for answer, _ in rows],
        "prompts": [PROMPT for _ in rows],
        "labels": [label for _, label in rows],
    }
    return httpx.post(url, json=body, params={"rubric": rubric} if rubric else {}, timeout=30)


def test_rewards_come_with_scores_and_logs(url: str) -> None:
    found = ask(url, (DOUBLE, CODE), (FOUR, CODE), ("1 / 0", CODE), rubric="code.blend")
    assert found.json() == {
        "rewards": [1.0, 0.25, 0.0],
        "scores": [1.0, 0.25, 0.0],
        "extra_logs": {
            "right": [1.0, 0.0, 0.0],
            "pass_ratio": [1.0, 0.5, 0.0],
            "accepted": [1.0, 0.0, 0.0],
        },
    }


@pytest.mark.slow
def test_labels_are_references_or_name_what_they_need(url: str) -> None:
    assert ask(url, ("so 4", "4"), ("so 5", "4"), rubric="math").json()["rewards"] == [1.0, 0.0]
    mixed = ask(url, (FOUR, CODE), ("#### 4", '{"reference": "4", "rubric": "math"}'))
    assert mixed.json() == {
        "rewards": [0.5, 1.0],
        "scores": [0.5, 1.0],
        "extra_logs": {"right": [0.0, 1.0]},
    }


@pytest.mark.parametrize("end", ["<|im_end|>", "<|im_end|>\n", "</s>", "<｜end▁of▁sentence｜>", ""])
def test_tokens_that_end_a_text_are_no_part_of_an_answer(url: str, end: str) -> None:
    found = ask(url, ("#### 4", "4"), rubric="math", end=end)
    assert found.json()["rewards"] == [1.0]


@pytest.mark.slow
def test_a_failure_refuses_all_queries_until_it_is_over(url: str, broken: set[str]) -> None:
    broken.add("int(input())")
    refused = ask(url, (FOUR, CODE), (DOUBLE, CODE))
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert "rewards" not in refused.json()
    broken.clear()
    assert ask(url, (FOUR, CODE), (DOUBLE, CODE)).json()["rewards"] == [0.5, 1.0]


def test_no_queries_get_no_rewards(url: str) -> None:
    """With several addresses the client sends empty lists to all but the first."""
    assert ask(url).json() == {"rewards": [], "scores": [], "extra_logs": {"right": []}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": ["other"], "prompts": ["p"], "labels": ["4"]}, "query"),
        ({"query": ["p4"], "prompts": [], "labels": ["4"]}, "prompts"),
        ({"query": ["p4"], "prompts": ["p"], "labels": ["4", "5"]}, "labels"),
        ({"query": ["p4"], "prompts": ["p"], "labels": [{"test": 1, "tags": {}}]}, "label.test"),
        ({"query": ["p4"], "prompts": ["p"], "labels": [None]}, "task.reference"),
        ({"prompts": ["p"]}, "query"),
    ],
)
def test_wrong_requests_name_the_field(url: str, body: dict[str, Any], field: str) -> None:
    found = httpx.post(url, json=body, params={"rubric": "math"})
    assert (found.status_code, found.json()["error"]["param"]) == (422, field)


def test_an_unknown_rubric_is_not_found(url: str) -> None:
    assert ask(url, ("4", "4"), rubric="none").status_code == 404
    assert ask(url, ("4", "4")).json()["error"]["param"] == "rubric"


def test_only_tokens_may_stand_before_a_prompt() -> None:
    assert answer_of("<s> 1 + 1 = 2</s>", "1 + 1 =") == " 2"
    for query in ("1 =2", "so 1 + 1 = 2"):
        with pytest.raises(InvalidInput, match="query: does not start with its prompt"):
            answer_of(query, "1 + 1 =")
