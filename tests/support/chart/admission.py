"""Rules that companies enforce on pods at admission, by Kyverno, Gatekeeper or a quota.

Each rule returns whether a pod keeps it. Pods of tests count: an admission controller sees them.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.chart.rendering import Manifest, Rendered

Rule = Callable[[Manifest], bool]
ARCHITECTURE = "kubernetes.io/arch"
COST_LABEL = "cost-center"


def containers(pod: Manifest) -> Iterator[Manifest]:
    """Yield all containers of a pod, those that run first included."""
    yield from pod["spec"].get("initContainers", ())
    yield from pod["spec"]["containers"]


def _asks(kind: str, *resources: str) -> Rule:
    """Return the rule that each container has these resources among its requests or limits."""

    def rule(pod: Manifest) -> bool:
        found = [box.get("resources", {}).get(kind, {}) for box in containers(pod)]
        return all(resource in one for one in found for resource in resources)

    return rule


def _has_a_tag(pod: Manifest) -> bool:
    names = [box["image"] for box in containers(pod)]
    return all("@" in name or ":" in name.rpartition("/")[2] for name in names) and not any(
        name.endswith(":latest") for name in names
    )


def _has_probes(pod: Manifest) -> bool:
    """Return whether each container that serves a port is probed."""
    boxes = [box for box in pod["spec"]["containers"] if box.get("ports")]
    return all("livenessProbe" in box and "readinessProbe" in box for box in boxes)


def _has_an_account(pod: Manifest) -> bool:
    spec = pod["spec"]
    name = spec.get("serviceAccountName", "default")
    return name != "default" and spec.get("automountServiceAccountToken") is False


def _has_digests(pod: Manifest) -> bool:
    return all("@sha256:" in box["image"] for box in containers(pod))


def _mounts_nothing_of_the_node(pod: Manifest) -> bool:
    return not any("hostPath" in volume for volume in pod["spec"].get("volumes", ()))


def _is_not_root(pod: Manifest) -> bool:
    whole: dict[str, Any] = pod["spec"].get("securityContext", {})
    for box in containers(pod):
        security = whole | box.get("securityContext", {})
        if security.get("runAsUser", 0) == 0 or not security.get("runAsNonRoot"):
            return False
    return True


RULES: dict[str, Rule] = {
    "a tag, and not latest": _has_a_tag,
    "requests, and a limit of memory": lambda pod: (
        _asks("requests", "cpu", "memory")(pod) and _asks("limits", "memory")(pod)
    ),
    "probes": _has_probes,
    "an own account, without a token": _has_an_account,
    "pull secrets": lambda pod: bool(pod["spec"].get("imagePullSecrets")),
    "a label of cost": lambda pod: COST_LABEL in pod["metadata"].get("labels", {}),
    "digests of images": _has_digests,
    "a limit of processors": _asks("limits", "cpu"),
    "a request of ephemeral storage": _asks("requests", "ephemeral-storage"),
    "nothing of the node mounted": _mounts_nothing_of_the_node,
    "not root": _is_not_root,
    "an architecture": lambda pod: ARCHITECTURE in pod["spec"].get("nodeSelector", {}),
}


def breaches(rendered: Rendered) -> dict[str, list[str]]:
    """Return the owners of the pods that break each rule."""
    pods = list(rendered.pods())
    return {name: [owner for owner, pod in pods if not rule(pod)] for name, rule in RULES.items()}
