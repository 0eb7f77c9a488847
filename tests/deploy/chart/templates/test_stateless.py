"""Judge, reward and sandbox: scaling Deployments, with their other objects."""

import re
from typing import Any

import pytest
import yaml

from assay_judge.config import JudgeConfig
from assay_reward.executor.config import ExecutorConfig
from assay_reward.rubric import Rubrics
from tests.support.chart.rendering import (
    ROOT,
    Values,
    at,
    container,
    environment,
    example,
    merge,
    render,
)

SERVICES = {"judge": 8003, "reward": 8004, "sandbox": 8002}
SCALED = {"enabled": True, "minReplicas": 3, "maxReplicas": 9, "cpuPercent": 60}

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    **{
        f"{name}/{kind}.yaml": [at(f"{name}.enabled", False)]
        for name in SERVICES
        for kind in ("deployment", "service", "serviceaccount")
    },
    **{
        f"{name}/hpa.yaml": [
            at(f"{name}.autoscaling.enabled", False),
            {name: {"enabled": False, "autoscaling": SCALED}},
        ]
        for name in SERVICES
    },
    **{
        f"{name}/pdb.yaml": [
            at(f"{name}.enabled", False),
            at(f"{name}.podDisruptionBudget.enabled", False),
        ]
        for name in SERVICES
    },
    "judge/configmap.yaml": [{}, {"judge": {"enabled": False, "config": {"chain": []}}}],
    "reward/configmap.yaml": [{}, {"reward": {"enabled": False, "rubrics": {"a": {}}}}],
    "reward/executor-configmap.yaml": [
        {},
        {"reward": {"enabled": False, "executor": {"config": {"models": []}}}},
    ],
    "sandbox/seccomp-configmap.yaml": [
        {},
        {"sandbox": {"enabled": False, "seccompInstaller": {"enabled": True}}},
    ],
    "sandbox/seccomp-daemonset.yaml": [
        {},
        {"sandbox": {"enabled": False, "seccompInstaller": {"enabled": True}}},
    ],
    "sandbox/seccomp-serviceaccount.yaml": [
        at("sandbox.seccompInstaller.enabled", True),
        at("sandbox.seccompInstaller.serviceAccount.create", True),
    ],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


@pytest.mark.parametrize(("name", "port"), SERVICES.items())
def test_deployment_and_service_meet_at_the_port(name: str, port: int) -> None:
    rendered = render()
    deployment, service = (
        rendered.one(f"{name}/deployment.yaml"),
        rendered.one(f"{name}/service.yaml"),
    )
    pod = deployment["spec"]["template"]
    assert service["metadata"]["name"] == f"assay-{name}"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert service["spec"]["ports"][0]["port"] == port
    assert container(pod)["ports"] == [{"name": "http", "containerPort": port, "protocol": "TCP"}]
    assert container(pod)["args"] == [
        *("assay", name, "serve", "--host", "0.0.0.0,::", "--port", str(port)),
    ]
    account = rendered.one(f"{name}/serviceaccount.yaml")
    assert account["metadata"]["name"] == pod["spec"]["serviceAccountName"]


@pytest.mark.parametrize("name", SERVICES)
def test_alive_and_ready_are_different_questions(name: str) -> None:
    box = container(render().one(f"{name}/deployment.yaml")["spec"]["template"])
    assert box["livenessProbe"]["httpGet"]["path"] == "/health"
    assert box["startupProbe"]["httpGet"]["path"] == "/health"
    assert box["readinessProbe"]["httpGet"]["path"] == "/ready"


@pytest.mark.parametrize("name", SERVICES)
def test_an_update_never_leaves_fewer_and_lets_requests_finish(name: str) -> None:
    spec = render().one(f"{name}/deployment.yaml")["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = spec["template"]
    farewell_s = container(pod)["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace_s = int(environment(pod)["ASSAY_SHUTDOWN_GRACE_S"])
    assert farewell_s + grace_s + 5 <= pod["spec"]["terminationGracePeriodSeconds"]
    assert grace_s >= 20


@pytest.mark.parametrize("name", SERVICES)
def test_replicas_spread_over_nodes_and_zones(name: str) -> None:
    spec = render().one(f"{name}/deployment.yaml")["spec"]
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [item["topologyKey"] for item in spread] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    assert all(
        item["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"] for item in spread
    )


@pytest.mark.parametrize("name", SERVICES)
def test_an_autoscaler_alone_says_how_many(name: str) -> None:
    rendered = render(at(f"{name}.autoscaling", SCALED))
    assert "replicas" not in rendered.one(f"{name}/deployment.yaml")["spec"]
    spec = rendered.one(f"{name}/hpa.yaml")["spec"]
    assert spec["scaleTargetRef"]["name"] == f"assay-{name}"
    assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 9)
    assert spec["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
    box = container(rendered.one(f"{name}/deployment.yaml")["spec"]["template"])
    assert "cpu" in box["resources"]["requests"], "a share of what is asked for is measured"


@pytest.mark.parametrize("name", SERVICES)
def test_a_drained_node_takes_one_at_a_time(name: str) -> None:
    rendered = render()
    spec = rendered.one(f"{name}/pdb.yaml")["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["selector"] == rendered.one(f"{name}/deployment.yaml")["spec"]["selector"]


def test_judge_configmap_is_a_chain_that_loads() -> None:
    values = example("values-production.yaml")
    rendered = render(values)
    text = rendered.one("judge/configmap.yaml")["data"]["judge.yaml"]
    assert [
        provider.kind for provider in JudgeConfig.model_validate(yaml.safe_load(text)).chain
    ] == [
        "openai",
        "reference",
    ]
    pod = rendered.one("judge/deployment.yaml")["spec"]["template"]
    assert environment(pod)["ASSAY_JUDGE_CONFIG"] == "/etc/assay/judge.yaml"
    assert environment(pod)["JUDGE_KEY"] == {
        "secretKeyRef": {"name": "judge-keys", "key": "primary"}
    }


def test_the_executors_file_loads_and_its_key_comes_from_a_secret() -> None:
    model = {"name": "big", "base_url": "http://vllm.models:8000/v1", "model": "big"}
    values = {
        "reward": {
            "executor": {
                "config": {"models": [model | {"api_key_env": "EXECUTOR_KEY"}]},
                "egress": {
                    "pods": [{"namespace": "models", "pods": {"app": "vllm"}, "port": 8000}]
                },
            },
            "secretEnvironment": [{"name": "EXECUTOR_KEY", "secret": "models", "key": "key"}],
        }
    }
    rendered = render(values)
    text = rendered.one("reward/executor-configmap.yaml")["data"]["executor.yaml"]
    assert ExecutorConfig.model_validate(yaml.safe_load(text)).models[0].name == "big"
    pod = rendered.one("reward/deployment.yaml")["spec"]["template"]
    assert environment(pod)["ASSAY_EXECUTOR_CONFIG"] == "/etc/assay/executor/executor.yaml"
    assert environment(pod)["EXECUTOR_KEY"] == {"secretKeyRef": {"name": "models", "key": "key"}}
    rules = rendered.one("network/reward.yaml")["spec"]["egress"]
    assert {"app": "vllm"} in [
        to.get("podSelector", {}).get("matchLabels") for rule in rules for to in rule["to"]
    ]
    plain = render().one("reward/deployment.yaml")["spec"]["template"]
    assert "ASSAY_EXECUTOR_CONFIG" not in environment(plain)
    stamps = [one["metadata"]["annotations"]["assay/config"] for one in (pod, plain)]
    assert stamps[0] != stamps[1], "another file starts new pods"


def test_another_chain_replaces_the_judges() -> None:
    def stamp(values: Values) -> str:
        pod = render(values).one("judge/deployment.yaml")["spec"]["template"]
        return str(pod["metadata"]["annotations"]["assay/config"])

    chain = {"judge": {"config": {"chain": [{"kind": "reference"}]}}}
    assert stamp({}) != stamp(chain)


def test_judges_share_their_limits_in_redis_unless_there_is_one() -> None:
    pod = render().one("judge/deployment.yaml")["spec"]["template"]
    assert environment(pod)["ASSAY_JUDGE_SHARED"] == "redis"
    assert environment(pod)["ASSAY_REDIS_URL"] == "redis://assay-redis:6379/0"
    alone = render({"judge": {"shared": "process", "replicas": 1}})
    assert "ASSAY_REDIS_URL" not in environment(
        alone.one("judge/deployment.yaml")["spec"]["template"]
    )


def test_reward_configmap_holds_rubrics_that_load(tmp_path: Any) -> None:
    name = next((ROOT / "configs" / "rubrics").glob("*.yaml"))
    rendered = render({"reward": {"rubrics": {name.stem: yaml.safe_load(name.read_text())}}})
    data = rendered.one("reward/configmap.yaml")["data"]
    for file, text in data.items():
        (tmp_path / file).write_text(text)
    assert Rubrics(tmp_path).find(name.stem).name == name.stem
    pod = rendered.one("reward/deployment.yaml")["spec"]["template"]
    assert environment(pod)["ASSAY_REWARD_RUBRICS"] == "/etc/assay/rubrics"


def test_reward_is_told_where_sandbox_and_judge_are_and_nothing_else() -> None:
    pod = render().one("reward/deployment.yaml")["spec"]["template"]
    urls = {name: url for name, url in environment(pod).items() if name.endswith("_URL")}
    assert urls == {
        "ASSAY_SANDBOX_URL": "http://assay-sandbox:8002",
        "ASSAY_JUDGE_URL": "http://assay-judge:8003",
    }


def test_the_slim_sandbox_is_another_image() -> None:
    def image(values: Values) -> str:
        pod = render(merge({"image": {"tag": "1.2"}}, values)).one("sandbox/deployment.yaml")
        return str(container(pod["spec"]["template"])["image"])

    assert image({}) == "assay-sandbox:1.2"
    assert image({"sandbox": {"variant": "slim"}}) == "assay-sandbox:1.2-slim"


def test_seccomp_daemonset_puts_the_profile_where_the_kubelet_looks() -> None:
    profile = {"seccompProfile": "assay/v2.json", "seccompInstaller": {"enabled": True}}
    rendered = render({"sandbox": profile})
    spec = rendered.one("sandbox/seccomp-daemonset.yaml")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["node"]["hostPath"]["path"] == "/var/lib/kubelet/seccomp/assay"
    assert (
        volumes["profile"]["configMap"]["name"]
        == (rendered.one("sandbox/seccomp-configmap.yaml")["metadata"]["name"])
    )
    assert spec["initContainers"][0]["command"] == ["cp", "/profile/sandbox.json", "/node/v2.json"]
    pod = rendered.one("sandbox/deployment.yaml")["spec"]["template"]
    assert (
        container(pod)["securityContext"]["seccompProfile"]["localhostProfile"] == "assay/v2.json"
    )


def test_each_version_has_a_profile_of_its_own_where_this_kubelet_looks() -> None:
    values = {
        "sandbox": {
            "seccompRoot": "/var/snap/microk8s/common/var/lib/kubelet/seccomp",
            "seccompInstaller": {"enabled": True},
        }
    }
    rendered = render(values)
    spec = rendered.one("sandbox/seccomp-daemonset.yaml")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    folder = "/var/snap/microk8s/common/var/lib/kubelet/seccomp/assay"
    assert volumes["node"]["hostPath"]["path"] == folder
    installed = spec["initContainers"][0]["command"][-1].removeprefix("/node/")
    assert re.fullmatch(r"sandbox-\d+\.\d+\.\d+\.json", installed)
    pod = rendered.one("sandbox/deployment.yaml")["spec"]["template"]
    profile = container(pod)["securityContext"]["seccompProfile"]
    assert profile["localhostProfile"] == f"assay/{installed}"
    assert f"{folder}/{installed}" in rendered.notes
