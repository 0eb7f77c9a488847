"""What KEDA and its HorizontalPodAutoscaler make of a rendered ScaledObject, poll by poll.

After KEDA 2.17 (pkg/scaling/executor) and Kubernetes' algorithm: the desired number is
ceil(total / target), unless total is within a tenth of what the present pods are for. `behavior`
limits the change. KEDA alone goes to zero and comes back: active is a total above the activation.
"""

import math
from collections.abc import Mapping
from typing import Any

#: How often the HorizontalPodAutoscaler looks.
SYNC_S = 15
_TOLERANCE = 0.1


class Autoscaler:
    """A ScaledObject of one target. `replicas` is the present number."""

    def __init__(self, scaled: Mapping[str, Any], replicas: int = 0) -> None:
        self.replicas = replicas
        self._spec = scaled["spec"]
        self._advanced = self._spec["advanced"]
        self._behavior = self._advanced["horizontalPodAutoscalerConfig"]["behavior"]
        self._last_active_at = 0.0
        #: Recommendations with their times.
        self._wanted: list[tuple[float, int]] = []

    def poll(self, now_s: float, metrics: Mapping[str, float]) -> int:
        """Look once, as KEDA and then its autoscaler do; return the new number of replicas."""
        total, target, activation = self._measured(metrics)
        least = self._spec["minReplicaCount"]
        if total > activation:
            self._last_active_at = now_s
            if self.replicas < max(1, least):
                self.replicas = max(1, least)
        elif least == 0:
            if now_s - self._last_active_at > self._spec["cooldownPeriod"]:
                self.replicas = 0
        elif self.replicas < least:
            self.replicas = least
        if self.replicas > 0:
            self._scale(now_s, total, target)
        return self.replicas

    def _measured(self, metrics: Mapping[str, float]) -> tuple[float, float, float]:
        """Return the total, the target of a replica, and the total above which it is active."""
        triggers = self._spec["triggers"]
        modifiers = self._advanced.get("scalingModifiers")
        if modifiers:
            names = {one["name"]: metrics[one["metadata"]["listName"]] for one in triggers}
            total = sum(names[name] for name in modifiers["formula"].split(" + "))
            return total, float(modifiers["target"]), float(modifiers["activationTarget"])
        (trigger,) = triggers
        metadata = trigger["metadata"]
        place = metadata.get("valueLocation") or metadata["query"]
        return metrics[place], float(metadata.get("targetValue") or metadata["threshold"]), 0.0

    def _scale(self, now_s: float, total: float, target: float) -> None:
        ratio = total / (target * self.replicas)
        wanted = self.replicas if abs(ratio - 1) <= _TOLERANCE else math.ceil(total / target)
        self._wanted.append((now_s, wanted))
        up, down = self._behavior["scaleUp"], self._behavior["scaleDown"]
        if wanted > self.replicas:
            (policy,) = up["policies"]
            assert policy["type"] == "Pods"
            wanted = min(wanted, self.replicas + policy["value"])
        elif down.get("selectPolicy") == "Disabled":
            wanted = self.replicas
        else:
            since = now_s - down["stabilizationWindowSeconds"]
            wanted = min(self.replicas, max(n for at, n in self._wanted if at >= since))
        least, most = max(1, self._spec["minReplicaCount"]), self._spec["maxReplicaCount"]
        self.replicas = min(max(wanted, least), most)
