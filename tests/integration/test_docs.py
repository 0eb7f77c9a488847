"""The services' pages against the running services: every example and route."""

import json
import re
import shlex
from pathlib import Path

import httpx
import pytest

from assay_shared.mesh import USUAL_PORTS, Mesh

DOCS = Path(__file__).parent.parent.parent / "docs"


def examples() -> list[tuple[str, str, str]]:
    """Service, path and body of every curl call in the pages."""
    found = []
    for page in sorted(DOCS.glob("*.md")):
        for block in re.findall(r"```bash\n(curl .*?)```", page.read_text(), re.DOTALL):
            words = shlex.split(block)
            port, path = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\S+)", words[1]).groups()  # type: ignore[union-attr]
            assert words[2:4] == ["-H", "content-type: application/json"]
            assert words[4] == "-d"
            service = next(name for name, usual in USUAL_PORTS.items() if usual == int(port))
            assert service == page.stem
            found.append((service, path, words[5]))
    return found


EXAMPLES = examples()
JSON = {"content-type": "application/json"}


@pytest.mark.usefixtures("warm")  # a policy is served
@pytest.mark.parametrize(
    ("service", "path", "body"), EXAMPLES, ids=[service + path for service, path, _ in EXAMPLES]
)
def test_examples_work_as_they_are_written(mesh: Mesh, service: str, path: str, body: str) -> None:
    response = httpx.post(mesh.urls[service] + path, content=body, headers=JSON, timeout=60)
    assert response.is_success, response.text
    if path == "/v1/execute":
        assert response.json()["stdout"] == "42\n"
    if path == "/v1/test":
        assert response.json()["status"] == "accepted"
    if path == "/v1/score":
        assert [reward["value"] for reward in response.json()["rewards"]] == [1.0, 0.5]
    if path == "/v1/generate":
        assert len(response.json()["completions"]) == json.loads(body)["sampling"]["n"]


def test_there_is_an_example_for_each_service_that_answers_requests() -> None:
    assert {service for service, _, _ in EXAMPLES} == set(USUAL_PORTS) - {"trainer"}


@pytest.mark.parametrize("service", USUAL_PORTS)
def test_every_route_is_documented(mesh: Mesh, service: str) -> None:
    page = (DOCS / f"{service}.md").read_text() + (DOCS / "services.md").read_text()
    for path in httpx.get(f"{mesh.urls[service]}/openapi.json").json()["paths"]:
        assert path in page, f"docs/{service}.md does not name {path}"
