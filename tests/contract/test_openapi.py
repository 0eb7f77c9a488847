"""Documents and OpenAPI pages are true: descriptions, examples, errors of routes."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.own.source import OwnSource
from assay_reward.rubric import ComponentConfig, Rubric
from assay_reward.settings import RewardSettings
from assay_reward.verifiers.own_values import OwnOptions
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.settings.run_file import Config
from tests.conftest import Serve
from tests.support.curls import examples

#: Routes in the formats of others, whose fields are described where those are.
FOREIGN = ("/run_", "/submit", "/get_", "/list_", "/test_program")
TOKENS = {401, 403, 429}


@pytest.fixture(scope="module")
def urls(serve_for_all: Serve) -> dict[str, str]:
    """The services as they are without any setting, but for their ports."""
    sandbox = serve_for_all(
        create_sandbox(SandboxSettings(sandbox_minimum_isolation="fallback", sandbox_slots=1))
    )
    judge = serve_for_all(create_judge(JudgeSettings()))
    reward = serve_for_all(create_reward(RewardSettings(sandbox_url=sandbox, judge_url=judge)))
    return {"sandbox": sandbox, "judge": judge, "reward": reward}


@pytest.fixture(scope="module")
def pages(urls: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The OpenAPI document of each service."""
    return {name: httpx.get(f"{url}/openapi.json").json() for name, url in urls.items()}


def routes(page: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of each route of Assay's own, but for the probes."""
    for path, methods in page["paths"].items():
        for method, route in methods.items():
            if not path.startswith(FOREIGN) and "probes" not in route.get("tags", []):
                yield path, method, route


def reachable(page: dict[str, Any], part: object, found: set[str]) -> set[str]:
    """Return the names of all schemas in a part of a page."""
    if isinstance(part, list):
        for item in part:
            reachable(page, item, found)
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).rpartition("/")[2]
        if name and name not in found:
            found.add(name)
            reachable(page, page["components"]["schemas"][name], found)
        for item in part.values():
            reachable(page, item, found)
    return found


@pytest.mark.parametrize("service", ["sandbox", "judge", "reward"])
def test_every_field_is_described(pages: dict[str, dict[str, Any]], service: str) -> None:
    page = pages[service]
    names: set[str] = set()
    for _, _, route in routes(page):
        reachable(page, route, names)
    assert len(names) > 5
    missing = [
        f"{name}.{field}"
        for name in sorted(names)
        for field, schema in page["components"]["schemas"][name].get("properties", {}).items()
        if not schema.get("description")
    ]
    assert missing == []


@pytest.mark.parametrize("model", [Rubric, ComponentConfig, OwnOptions, OwnSource])
def test_every_key_of_a_rubric_is_described(model: type[Config]) -> None:
    properties = model.model_json_schema()["properties"]
    assert [name for name, schema in properties.items() if not schema.get("description")] == []


def test_descriptions_come_from_the_comments(pages: dict[str, dict[str, Any]]) -> None:
    task = pages["reward"]["components"]["schemas"]["Task"]
    assert "required" not in task, "a request to score may leave out each of them"
    reference = task["properties"]["reference"]["description"]
    comment = "Verifiers and judges compare an answer with this text; with `gold` if it is not set."
    assert reference == comment


EXAMPLES = {
    "sandbox": ["/v1/execute", "/v1/test", "/v1/test", "/v1/sessions"],
    "judge": ["/v1/judge", "/v1/judge"],
    "reward": ["/v1/score", "/v1/score", "/v1/score/batch", "/v1/score/stream", "/v1/score/stream"],
}


@pytest.mark.parametrize("service", EXAMPLES)
def test_examples_run_as_they_are(
    urls: dict[str, str], pages: dict[str, dict[str, Any]], service: str
) -> None:
    page, run = pages[service], []
    for path, _, route in routes(page):
        if "requestBody" not in route or "{" in path:
            continue
        for name in reachable(page, route["requestBody"]["content"]["application/json"], set()):
            for example in page["components"]["schemas"][name].get("examples", []):
                schema = route["requestBody"]["content"]["application/json"]["schema"]
                if schema["$ref"].endswith(f"/{name}"):
                    response = httpx.post(urls[service] + path, json=example, timeout=60)
                    assert response.is_success, response.text
                    assert '"status":"failed"' not in response.text
                    assert '"accepted"' in response.text or service != "sandbox" or path in SESSIONS
                    run.append(path)
    assert sorted(run) == sorted(EXAMPLES[service])


SESSIONS = ("/v1/sessions",)
DOCUMENTED = [one for one in examples() if one[0] in EXAMPLES]


@pytest.mark.parametrize(
    ("service", "path", "body"), DOCUMENTED, ids=[one[0] + one[1] for one in DOCUMENTED]
)
def test_the_documents_examples_work_on_the_default_set_up(
    urls: dict[str, str], service: str, path: str, body: str
) -> None:
    headers = {"content-type": "application/json"}
    response = httpx.post(urls[service] + path, content=body, headers=headers, timeout=60)
    assert response.is_success, response.text
    assert '"status":"failed"' not in response.text, "an instrument failed"
    if path == "/v1/execute":
        assert response.json()["stdout"] == "42\n"
    if path == "/v1/test":
        assert response.json()["status"] == "accepted"
    if path == "/v1/score":
        values = [reward["value"] for reward in response.json()["rewards"]]
        assert values == [1.0, 0.0 if "math" in body else 0.5]
    if path == "/v1/judge" and "pairwise" in body:
        assert [one["score"] for one in response.json()["judgements"]] == [0.0, 1.0]


def test_the_least_request_scores(urls: dict[str, str]) -> None:
    """A new user's first request: a rubric, a reference, answers."""
    body = {"rubric": "math", "task": {"reference": "2"}, "answers": ["2", "3"]}
    rewards = httpx.post(f"{urls['reward']}/v1/score", json=body).json()["rewards"]
    assert [reward["value"] for reward in rewards] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"task": {"reference": "2"}, "answers": ["2"]}, "rubric", "no rubric is named"),
        (
            {"rubric": "judge", "task": {}, "answers": ["2"]},
            "rubric",
            "no rubric is called",
        ),
        ({"rubric": "qa", "task": {}, "answers": ["2"]}, "task.prompt", "a prompt or a reference"),
        ({"rubric": "math", "task": {}, "answers": ["2"]}, "task.reference", "nothing to compare"),
        ({"rubric": "math", "task": {}, "answers": "2"}, "answers", "Input should be a list, not"),
        ({"rubric": "math", "task": {}, "answers": []}, "answers", "List should have at least 1"),
        ({"rubric": "math", "task": [], "answers": ["2"]}, "task", "Input should be an object"),
        (b'{"rubric": "math",', None, "the body is not JSON: Expecting property name"),
        (b"\xff", None, "the body must be UTF-8 JSON"),
    ],
)
def test_a_wrong_request_is_told_in_plain_words(
    urls: dict[str, str], body: object, param: str | None, message: str
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    headers = {"content-type": "application/json"}
    response = httpx.post(f"{urls['reward']}/v1/score", content=content, headers=headers)
    assert response.status_code in (404, 422)
    error = response.json()["error"]
    assert error["param"] == param
    assert message in error["message"]


def codes(page: dict[str, Any]) -> dict[str, set[int]]:
    """Return the errors listed by each of Assay's own routes."""
    found = {}
    for path, method, route in routes(page):
        listed = {int(code) for code in route["responses"] if int(code) >= 400}
        found[f"{method} {path}"] = listed - TOKENS
        assert listed >= TOKENS, path
        for code in listed:
            content = route["responses"][str(code)]["content"]["application/json"]
            assert content["schema"]["$ref"].endswith("/ErrorBody"), f"{path}: {code}"
    return found


def test_routes_list_the_errors_that_occur(pages: dict[str, dict[str, Any]]) -> None:
    assert codes(pages["reward"]) == {
        "get /v1/rubrics": {503},
        "post /v1/score": {404, 409, 413, 422, 503},
        "post /v1/score/batch": {413, 422, 503},
        "post /v1/score/stream": {404, 413, 422, 503},
        "post /v1/environments/{name}/step": {404, 413, 422, 500, 502, 503, 504},
        "get /v1/environments": {503},
    }
    assert codes(pages["judge"]) == {
        "post /v1/judge": {413, 422, 503},
        "get /v1/spending": {413, 422, 502, 503},
    }
    sessions = {404, 409, 413, 422, 500, 503}
    assert codes(pages["sandbox"]) == {
        "post /v1/execute": {413, 422, 500, 503},
        "post /v1/test": {413, 422, 500, 503},
        "get /v1/languages": {503},
        "post /v1/sessions": {413, 422, 503},
        "get /v1/sessions/{session}": {404, 413, 422, 503},
        "delete /v1/sessions/{session}": {404, 413, 422, 503},
        "post /v1/sessions/{session}/execute": sessions,
        "put /v1/sessions/{session}/files/{name}": sessions,
        "get /v1/sessions/{session}/files/{name}": sessions,
    }


def test_every_listed_error_of_scoring_occurs(serve_for_all: Serve, urls: dict[str, str]) -> None:
    """Without 503, the answer of a stopping service: see the tests of shutting down."""
    settings = RewardSettings.model_validate(
        {
            "sandbox_url": urls["sandbox"],
            "body_limit_bytes": 4096,
            "token": "own",
            "client_tokens": {
                "seldom": {"token": "seldom", "requests_per_minute": 1},
                "reader": {"token": "reader", "scopes": ["reward:read"]},
            },
        }
    )
    url = serve_for_all(create_reward(settings))

    def code(token: str = "own", **body: object) -> int:
        least = {"rubric": "math", "task": {"reference": "2"}, "answers": ["2"]}
        headers = {"authorization": f"Bearer {token}"}
        return httpx.post(f"{url}/v1/score", json=least | body, headers=headers).status_code

    assert code() == 200
    assert code("wrong") == 401
    assert code("reader") == 403
    assert code(rubric="none") == 404
    assert code(key="k") == 200
    assert code(key="k", answers=["3"]) == 409
    assert code(answers=["2" * 5000]) == 413
    assert code(answers=[]) == 422
    assert [code("seldom"), code("seldom")] == [200, 429]
