"""Rights given up by every pod, and the list of demands on the sandbox's pod."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.chart.pod_security import beyond_baseline, beyond_restricted
from tests.support.chart.rendering import (
    CHART,
    EXAMPLES,
    Manifest,
    container,
    environment,
    example,
    render,
)

VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
KINDS: list[dict[str, Any]] = [
    {},
    {"inference": {"replicas": 2}, "worker": {"autoscaling": {"enabled": True}}},
    {"trainer": {"kind": "Job", "run": {"file": {"name": "a"}}}},
    {"trainer": {"kind": "Job", "nodes": 2, "run": {"file": {"name": "a"}}}},
    *(example(name) for name in EXAMPLES),
]


def pods(values: dict[str, Any]) -> list[tuple[str, Manifest]]:
    return list(render(values).pods())


@pytest.mark.parametrize("values", KINDS, ids=range(len(KINDS)))
def test_every_pod_but_two_is_restricted(values: dict[str, Any]) -> None:
    expected: dict[str, set[str]] = {}
    if values.get("sandbox", {}).get("isolation", "userNamespaces") == "userNamespaces":
        expected["assay-sandbox"] = {"procMount", "appArmor"}
    if values.get("sandbox", {}).get("seccompInstaller"):
        root = {"hostPath", "volumes", "runAsNonRoot", "runAsUser"}
        expected["assay-seccomp"] = root
    found = {name: broken for name, pod in pods(values) if (broken := beyond_restricted(pod))}
    assert found == expected


@pytest.mark.parametrize("isolation", ["gvisor", "fallback"])
def test_a_sandbox_without_namespaces_of_its_own_is_restricted(isolation: str) -> None:
    found = dict(pods({"sandbox": {"isolation": isolation}}))
    assert all(beyond_restricted(pod) == set() for pod in found.values())


def test_the_levels_find_what_they_forbid() -> None:
    pod = dict(pods({}))["assay-judge"]
    container(pod)["securityContext"] = {"privileged": True, "capabilities": {"add": ["NET_ADMIN"]}}
    pod["spec"]["hostNetwork"] = True
    assert beyond_baseline(pod) == {"privileged", "capabilities", "hostNetwork"}
    assert beyond_restricted(pod) > beyond_baseline(pod)


@pytest.mark.parametrize("values", KINDS, ids=range(len(KINDS)))
def test_no_pod_holds_a_token_of_kubernetes(values: dict[str, Any]) -> None:
    rendered = render(values)
    accounts = {item["metadata"]["name"]: item for item in rendered.of_kind("ServiceAccount")}
    for name, pod in rendered.pods():
        assert pod["spec"]["automountServiceAccountToken"] is False, name
        assert accounts[pod["spec"]["serviceAccountName"]]["automountServiceAccountToken"] is False
        assert pod["spec"]["enableServiceLinks"] is False, name


@pytest.mark.parametrize("values", KINDS, ids=range(len(KINDS)))
def test_every_container_has_a_read_only_root_and_limits(values: dict[str, Any]) -> None:
    for name, pod in pods(values):
        for item in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            assert item["securityContext"]["readOnlyRootFilesystem"] is True, name
            assert {"cpu", "memory"} <= set(item["resources"]["requests"]), name
            assert "memory" in item["resources"]["limits"], name


@pytest.mark.parametrize("values", KINDS, ids=range(len(KINDS)))
def test_secrets_come_by_reference_alone(values: dict[str, Any]) -> None:
    rendered = render(values)
    assert rendered.of_kind("Secret") == []
    secret = ("_TOKEN", "_PASSWORD", "_KEY", "_TOKENS")
    for name, pod in rendered.pods():
        for variable, value in environment(pod).items():
            if variable.endswith(secret):
                assert isinstance(value, dict), f"{name}: {variable}"
                assert "secretKeyRef" in value, f"{name}: {variable}"


def test_a_pod_has_its_own_token_and_those_of_whom_it_calls() -> None:
    rendered = render({"inference": {"replicas": 2}})
    found = {
        name.removeprefix("assay-"): {
            variable.removeprefix("ASSAY_").removesuffix("_TOKEN").lower()
            for variable in environment(pod)
            if variable.endswith("_TOKEN")
        }
        for name, pod in rendered.pods()
        if "test" not in name
    }
    assert found == {
        "sandbox": {"sandbox"},
        "judge": {"judge"},
        "engine": {"inference"},
        "router": {"inference"},
        "reward": {"reward", "sandbox", "judge"},
        "trainer": {"trainer", "inference", "reward"},
        "worker": {"inference", "reward"},
        "redis": set(),
    }


Check = Callable[[Manifest, Manifest], object]

#: What is asked of the sandbox's pod whatever its variant: pod and container hold it.
ALWAYS: dict[str, Check] = {
    "no token of Kubernetes": lambda pod, _: pod["spec"]["automountServiceAccountToken"] is False,
    "its own account": lambda pod, _: pod["spec"]["serviceAccountName"] == "assay-sandbox",
    "no variables of other services": lambda pod, _: pod["spec"]["enableServiceLinks"] is False,
    "no namespace of the node": lambda pod, _: (
        not {"hostNetwork", "hostPID", "hostIPC"} & set(pod["spec"])
    ),
    "no name server": lambda pod, _: (
        (pod["spec"]["dnsPolicy"], pod["spec"]["dnsConfig"])
        == ("None", {"nameservers": ["127.0.0.1"]})
    ),
    "no other container": lambda pod, _: (
        len(pod["spec"]["containers"]) == 1 and "initContainers" not in pod["spec"]
    ),
    "no volume but memory": lambda pod, _: all(
        volume.keys() == {"name", "emptyDir"}
        and volume["emptyDir"]["medium"] == "Memory"
        and volume["emptyDir"]["sizeLimit"]
        for volume in pod["spec"]["volumes"]
    ),
    "what is left is reaped": lambda pod, _: pod["spec"]["shareProcessNamespace"] is True,
    "user 10001, never root": lambda pod, box: (
        pod["spec"]["securityContext"]["runAsUser"] == 10001
        and pod["spec"]["securityContext"]["runAsNonRoot"] is True
        and box["securityContext"]["runAsNonRoot"] is True
    ),
    "not privileged, and never more than at the start": lambda _, box: (
        "privileged" not in box["securityContext"]
        and box["securityContext"]["allowPrivilegeEscalation"] is False
    ),
    "no capabilities": lambda _, box: box["securityContext"]["capabilities"] == {"drop": ["ALL"]},
    "a read-only root": lambda _, box: box["securityContext"]["readOnlyRootFilesystem"] is True,
    "a seccomp profile": lambda pod, box: (
        box["securityContext"].get(
            "seccompProfile", pod["spec"]["securityContext"]["seccompProfile"]
        )["type"]
        in ("Localhost", "RuntimeDefault")
    ),
    "limits of memory and processor": lambda _, box: (
        {"cpu", "memory"} <= set(box["resources"]["limits"])
    ),
    "memory that is asked for is there": lambda _, box: (
        box["resources"]["requests"]["memory"] == box["resources"]["limits"]["memory"]
    ),
    "no port of the node": lambda _, box: all("hostPort" not in port for port in box["ports"]),
    "no secret but its own token": lambda pod, _: (
        [name for name, value in environment(pod).items() if isinstance(value, dict)]
        == ["ASSAY_SANDBOX_TOKEN"]
    ),
    "no address of another service": lambda pod, _: (
        not [name for name in environment(pod) if name.endswith("_URL")]
    ),
    "it refuses to start with less than its level": lambda pod, _: (
        environment(pod)["ASSAY_SANDBOX_ISOLATION"]
        == environment(pod)["ASSAY_SANDBOX_MINIMUM_ISOLATION"]
    ),
}

#: Further checks of each variant.
USER_NAMESPACES: dict[str, Check] = {
    "root of the pod is nobody on the node": lambda pod, _: pod["spec"]["hostUsers"] is False,
    "its own seccomp profile": lambda _, box: (
        box["securityContext"]["seccompProfile"]
        == {"type": "Localhost", "localhostProfile": f"assay/sandbox-{VERSION}.json"}
    ),
    "an unmasked /proc, in a user namespace alone": lambda pod, box: (
        box["securityContext"]["procMount"] == "Unmasked" and pod["spec"]["hostUsers"] is False
    ),
    "separate slots": lambda pod, _: environment(pod)["ASSAY_SANDBOX_ISOLATION"] == "pooled",
}
NO_NAMESPACES: dict[str, Check] = {
    "nothing of /proc is unmasked": lambda _, box: "procMount" not in box["securityContext"],
    "the runtime's AppArmor profile": lambda _, box: (
        "appArmorProfile" not in box["securityContext"]
    ),
    "the runtime's seccomp profile": lambda _, box: "seccompProfile" not in box["securityContext"],
    "one program at a time": lambda pod, _: environment(pod)["ASSAY_SANDBOX_SLOTS"] == "1",
    "the level is named": lambda pod, _: environment(pod)["ASSAY_SANDBOX_ISOLATION"] == "fallback",
}
GVISOR: dict[str, Check] = {
    **NO_NAMESPACES,
    "another kernel": lambda pod, _: pod["spec"]["runtimeClassName"] == "gvisor",
}
CHECKS = [
    (isolation, name, check)
    for isolation, more in (
        ("userNamespaces", USER_NAMESPACES),
        ("gvisor", GVISOR),
        ("fallback", NO_NAMESPACES),
    )
    for name, check in (ALWAYS | more).items()
]


def sandbox(isolation: str) -> Manifest:
    resources = {"requests": {"memory": "4Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}
    values = {"sandbox": {"isolation": isolation, "resources": resources}}
    return dict(pods(values))["assay-sandbox"]


@pytest.mark.parametrize(
    ("isolation", "check"),
    [(isolation, check) for isolation, _, check in CHECKS],
    ids=[f"{isolation}: {name}" for isolation, name, _ in CHECKS],
)
def test_the_sandbox_passes(isolation: str, check: Check) -> None:
    pod = sandbox(isolation)
    assert check(pod, container(pod))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("no capabilities", lambda pod, box: box["securityContext"]["capabilities"].clear()),
        (
            "no token of Kubernetes",
            lambda pod, box: pod["spec"].update(automountServiceAccountToken=True),
        ),
        (
            "no volume but memory",
            lambda pod, box: pod["spec"]["volumes"].append(
                {"name": "x", "hostPath": {"path": "/"}}
            ),
        ),
        (
            "no secret but its own token",
            lambda pod, box: box["env"].append({"name": "K", "valueFrom": {"secretKeyRef": {}}}),
        ),
        ("no namespace of the node", lambda pod, box: pod["spec"].update(hostPID=True)),
    ],
)
def test_a_check_sees_what_is_missing(
    name: str, spoil: Callable[[Manifest, Manifest], None]
) -> None:
    pod = sandbox("userNamespaces")
    spoil(pod, container(pod))
    assert not ALWAYS[name](pod, container(pod))


def test_memory_holds_what_programs_may_use_at_once() -> None:
    """docs/sandbox_isolation.md: slots x (memory_bytes + 3 x writable) + 200 MB, and /tmp."""
    mebibytes = {"Mi": 1, "Gi": 1024}
    for values in KINDS:
        pod = dict(pods(values))["assay-sandbox"]
        slots = int(environment(pod)["ASSAY_SANDBOX_SLOTS"])
        tmp = pod["spec"]["volumes"][0]["emptyDir"]["sizeLimit"]
        limit = container(pod)["resources"]["limits"]["memory"]
        has, tmp_has = (int(text[:-2]) * mebibytes[text[-2:]] for text in (limit, tmp))
        assert slots * (512 + 3 * 64) + 200 + tmp_has <= has
