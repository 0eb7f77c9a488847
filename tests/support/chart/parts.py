"""Every kind of pod at once, each with the same settings of its part."""

import re
from collections.abc import Iterator
from typing import Any

from tests.support.chart.rendering import Manifest, Rendered, Values, at, merge, render

#: The parts that take the common settings.
PARTS = (
    *("inference", "inference.router", "inference.modelDownload"),
    *("sandbox", "sandbox.seccompInstaller"),
    *("judge", "reward", "trainer", "worker", "redis", "tests"),
)
#: Everything that has pods.
EVERYTHING: dict[str, Any] = {
    "inference": {
        "replicas": 2,
        "modelDownload": {"enabled": True, "repository": "owner/model", "folder": "model"},
        "modelCache": {"existingClaim": "models"},
    },
    "sandbox": {"seccompInstaller": {"enabled": True}},
}
RUN: dict[str, Any] = {"kind": "Job", "run": {"name": "first", "file": {"name": "first"}}}
#: The three ways to train, of which one is in a release.
TRAINERS: dict[str, dict[str, Any]] = {
    "StatefulSet": {},
    "Job": {"trainer": RUN},
    "JobSet": {"trainer": RUN | {"nodes": 2}},
}
PODS = {
    *("engine", "router", "download", "sandbox", "seccomp", "judge", "reward", "worker", "redis"),
    *("test-ready", "test-score", "test-closed", "test-sandbox-closed"),
    *(f"trainer {kind}" for kind in TRAINERS),
}


#: All but the trainer, which the other renderings have.
OTHERS_OFF: dict[str, Any] = {
    name: {"enabled": False}
    for name in ("inference", "sandbox", "judge", "reward", "worker", "tests")
}


def of_every_part(settings: Values) -> dict[str, Any]:
    """Return values that give every part the same settings, and make every pod."""
    values = EVERYTHING
    for part in PARTS:
        values = merge(values, at(part, settings))
    return values


def every_rendering(values: Values, name: str = "assay") -> Iterator[Rendered]:
    """Yield the chart with each kind of trainer."""
    for trainer in TRAINERS.values():
        yield render(merge(merge(EVERYTHING, trainer), values), name=name)


def every_pod(values: Values) -> dict[str, Manifest]:
    """Return each kind of pod by its name in `PODS`."""
    found = {}
    for kind, trainer in TRAINERS.items():
        merged = merge(merge(EVERYTHING, trainer), values)
        for name, pod in render(merge(merged, OTHERS_OFF) if trainer else merged).pods():
            short = re.sub(r"^assay-|(?<=download)-\w+$", "", name)
            trains = short == "trainer" or short.startswith("run-")
            found[f"trainer {kind}" if trains else short] = pod
    assert found.keys() == PODS
    return found
