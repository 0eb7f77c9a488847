"""The services' pages against the running services: inference's examples, and every route."""

import json

import httpx
import pytest

from assay_shared.local.launcher import Launcher
from assay_shared.local.listeners import USUAL_PORTS
from tests.support.curls import DOCS, examples

EXAMPLES = examples()
OF_A_POLICY = [(path, body) for service, path, body in EXAMPLES if service == "inference"]
JSON = {"content-type": "application/json"}


@pytest.mark.usefixtures("warm")  # a policy is served
@pytest.mark.parametrize(("path", "body"), OF_A_POLICY, ids=[path for path, _ in OF_A_POLICY])
def test_examples_work_as_they_are_written(mesh: Launcher, path: str, body: str) -> None:
    """Examples without a policy run in tests/contract/test_openapi.py."""
    url = mesh.urls["inference"] + path
    response = httpx.post(url, content=body, headers=JSON, timeout=60)
    assert response.is_success, response.text
    if path == "/v1/generate":
        assert len(response.json()["completions"]) == json.loads(body)["sampling"]["n"]


def test_there_is_an_example_for_each_service_that_answers_requests() -> None:
    assert {service for service, _, _ in EXAMPLES} == set(USUAL_PORTS) - {"trainer"}


@pytest.mark.parametrize("service", USUAL_PORTS)
def test_every_route_is_documented(mesh: Launcher, service: str) -> None:
    pages = [*DOCS.glob(f"{service}*.md"), DOCS / "services.md"]
    text = "".join(page.read_text() for page in pages)
    for path in httpx.get(f"{mesh.urls[service]}/openapi.json").json()["paths"]:
        assert path in text, f"docs/{service}*.md do not name {path}"
