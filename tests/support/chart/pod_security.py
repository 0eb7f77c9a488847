"""Pod Security Standards: a pod's breaches of a level, by the names of its controls.

After https://kubernetes.io/docs/concepts/security/pod-security-standards/, for Linux pods. The
looser rules for pods in a user namespace are left out.
"""

from collections.abc import Iterator
from typing import Any

Manifest = dict[str, Any]

_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}


def beyond_baseline(pod: Manifest) -> set[str]:
    """Return the controls of the level `baseline` broken by the pod."""
    spec = pod["spec"]
    broken = {key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)}
    if any("hostPath" in volume for volume in spec.get("volumes", ())):
        broken.add("hostPath")
    for security in (spec.get("securityContext", {}), *_securities(spec)):
        if security.get("privileged"):
            broken.add("privileged")
        if security.get("procMount", "Default") != "Default":
            broken.add("procMount")
        if security.get("seccompProfile", {}).get("type") == "Unconfined":
            broken.add("seccomp")
        if security.get("appArmorProfile", {}).get("type") == "Unconfined":
            broken.add("appArmor")
        if security.get("capabilities", {}).get("add"):
            broken.add("capabilities")
    if any(port.get("hostPort") for item in _containers(spec) for port in item.get("ports", ())):
        broken.add("hostPort")
    return broken


def beyond_restricted(pod: Manifest) -> set[str]:
    """Return the controls of the level `restricted` broken by the pod, with `baseline`'s."""
    spec = pod["spec"]
    broken = beyond_baseline(pod)
    of_pod = spec.get("securityContext", {})
    if any(not _VOLUMES & set(volume) for volume in spec.get("volumes", ())):
        broken.add("volumes")
    for security in _securities(spec):
        if security.get("allowPrivilegeEscalation") is not False:
            broken.add("allowPrivilegeEscalation")
        if not security.get("runAsNonRoot", of_pod.get("runAsNonRoot")):
            broken.add("runAsNonRoot")
        if security.get("runAsUser", of_pod.get("runAsUser")) == 0:
            broken.add("runAsUser")
        profile = security.get("seccompProfile", of_pod.get("seccompProfile", {}))
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            broken.add("seccomp")
        if "ALL" not in security.get("capabilities", {}).get("drop", ()):
            broken.add("capabilities")
    return broken


def _containers(spec: Manifest) -> Iterator[Manifest]:
    yield from spec.get("initContainers", ())
    yield from spec["containers"]


def _securities(spec: Manifest) -> Iterator[Manifest]:
    for item in _containers(spec):
        yield item.get("securityContext", {})
