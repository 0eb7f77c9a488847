"""Without tokens a service is asked by the names of its Service, and by no others."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import wait_until
from tests.support.chart.parts import EVERYTHING
from tests.support.chart.rendering import (
    NAMESPACE,
    Rendered,
    at,
    container,
    environment,
    merge,
    render,
)
from tests.support.ports import free_port

OPEN: dict[str, Any] = at("auth.enabled", False)
SCALED: dict[str, Any] = at("inference.autoscaling.enabled", True)
RENDERINGS: dict[str, dict[str, Any]] = {
    "one engine": OPEN,
    "scaled": merge(merge(EVERYTHING, SCALED), OPEN),
    "renamed": merge(OPEN, at("nameOverride", "rl")),
}


def hosts_by_service(rendered: Rendered) -> dict[str, set[str]]:
    """Return the names that each Service's pods accept, by the name of the Service."""
    found = {}
    for service in rendered.of_kind("Service"):
        selector = service["spec"]["selector"].items()
        mine = [pod for _, pod in rendered.pods() if selector <= pod["metadata"]["labels"].items()]
        listening = [pod for pod in mine if "--host" in container(pod).get("args", ())]
        for pod in listening:
            hosts = environment(pod).get("ASSAY_ALLOWED_HOSTS", "")
            found[service["metadata"]["name"]] = set(hosts.split(","))
    return found


@pytest.mark.parametrize("name", RENDERINGS)
def test_a_pod_accepts_every_form_of_its_services_name(name: str) -> None:
    found = hosts_by_service(render(RENDERINGS[name]))
    assert len(found) >= 5
    for service, hosts in found.items():
        inside = f"{service}.{NAMESPACE}"
        assert hosts >= {service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"}


@pytest.mark.parametrize("name", RENDERINGS)
def test_every_address_that_the_chart_renders_is_accepted(name: str) -> None:
    rendered = render(RENDERINGS[name])
    accepted = hosts_by_service(rendered)
    values = [value for _, pod in rendered.pods() for value in environment(pod).values()]
    for scaled in rendered.of_kind("ScaledObject"):
        values += [trigger["metadata"].get("url") for trigger in scaled["spec"]["triggers"]]
    words = [word for value in values if isinstance(value, str) for word in value.split()]
    urls = [word.removeprefix("dns+") for word in words if "http://" in word]
    called = [urlsplit(url).hostname or "" for url in urls]
    assert len(set(called)) >= 5
    for host in called:
        assert host in accepted[host.partition(".")[0]], host


def test_with_tokens_any_name_is_accepted() -> None:
    for _, pod in render(EVERYTHING).pods():
        assert "ASSAY_ALLOWED_HOSTS" not in environment(pod)


def test_the_real_service_answers_under_these_names_alone(tmp_path: Path) -> None:
    """The judge's container with its variables, but for its port and its Redis."""
    rendered = render(merge(OPEN, at("auth.hosts", ["judge.example.com"])))
    pod = rendered.one("judge/deployment.yaml")["spec"]["template"]
    box, found = container(pod), environment(pod)
    plain = {name: value for name, value in found.items() if isinstance(value, str)}
    port = free_port()
    arguments = [str(port) if text == "8003" else text for text in box["args"]]
    assay = Path(sys.executable).with_name(arguments[0])
    variables = os.environ | plain | {"ASSAY_JUDGE_SHARED": "process"}
    service = subprocess.Popen([assay, *arguments[1:]], env=variables, cwd=tmp_path)
    try:
        wait_until(lambda: status(port, "/health", "localhost") == 200, "the judge")
        for host in (*hosts_by_service(rendered)["assay-judge"], "judge.example.com"):
            assert status(port, "/v1/spending", f"{host}:8003") == 200, host
        for host in ("assay-reward:8004", "evil.example", "assay-judge.other:8003"):
            assert status(port, "/v1/spending", host) == 403, host
    finally:
        service.terminate()
        service.wait(timeout=20)


def status(port: int, path: str, host: str) -> int:
    """Return the status of a GET under a name; 0 if nothing listens."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
