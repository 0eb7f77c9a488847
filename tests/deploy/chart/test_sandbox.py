"""Clusters and limits with which a sandbox could not work are refused."""

import shutil
from pathlib import Path
from typing import Any

import helm_python
import pytest

from tests.support.chart.rendering import CHART, at, merge, render


def chart_on(version: str, folder: Path) -> Path:
    """Return the chart as a cluster of a version sees it: the library takes no version."""
    copied = folder / "assay"
    shutil.copytree(CHART, copied)
    checks = copied / "templates" / "sandbox" / "_checks.tpl"
    text = checks.read_text()
    assert "{{- .Capabilities.KubeVersion.Version -}}" in text
    checks.write_text(text.replace("{{- .Capabilities.KubeVersion.Version -}}", version))
    return copied


@pytest.mark.parametrize("version", ["v1.30.0", "v1.32.9-gke.1000"])
def test_older_clusters_are_refused_unless_their_gates_are_on(version: str, tmp_path: Path) -> None:
    folder = chart_on(version, tmp_path)
    with pytest.raises(helm_python.HelmRenderError) as caught:
        render(folder=folder)
    for part in (version, "needs Kubernetes 1.33", "sandbox.allowBeta: true", "gvisor"):
        assert part in str(caught.value)
    for values in ({"allowBeta": True}, {"isolation": "gvisor"}, {"enabled": False}):
        assert render({"sandbox": values}, folder=folder).objects


@pytest.mark.parametrize("version", ["v1.33.0-eks-1", "v1.37.1"])
def test_newer_clusters_are_not(version: str, tmp_path: Path) -> None:
    assert render(folder=chart_on(version, tmp_path)).objects


def memory(text: str | None, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"memory": "4Mi"}, "limits": {"memory": text}}
    return {"sandbox": {"resources": resources, **more}}


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        (memory("4Gi", slots=8), "6088Mi"),
        (memory("22Gi", slots=32), "22984Mi"),
        (memory("3G", slots=4), "3272Mi"),
        (memory("4294967", slots=1, tmp="64Mi"), "968Mi"),
        (memory("4Gi", environment={"ASSAY_SANDBOX_WRITABLE_BYTES": 268_435_456}), "5576Mi"),
        (memory("800Mi", isolation="gvisor", slots=64), "1160Mi"),
    ],
)
def test_memory_that_programs_could_exceed_is_refused(values: dict[str, Any], needed: str) -> None:
    """slots x (memory_bytes + 3 x writable) + 200 MB, and /tmp, which is in memory."""
    with pytest.raises(helm_python.HelmRenderError, match=f"it needs {needed},"):
        render(values)
    render(merge(values, memory(needed)))
    below = f"{int(needed[:-2]) - 1}Mi"
    with pytest.raises(helm_python.HelmRenderError, match=f"{below} is too little"):
        render(merge(values, memory(below)))


def test_a_sandbox_without_a_limit_is_refused() -> None:
    with pytest.raises(helm_python.HelmRenderError, match=r"limits\.memory is missing"):
        render(memory(None))


def test_another_runtime_class_counts_with_every_isolation() -> None:
    def runtime(values: dict[str, Any]) -> Any:
        spec = render({"sandbox": values}).one("sandbox/deployment.yaml")["spec"]["template"]
        return spec["spec"].get("runtimeClassName")

    assert runtime({"isolation": "gvisor"}) == "gvisor"
    assert runtime({"isolation": "gvisor", "runtimeClassName": "runsc"}) == "runsc"
    assert runtime({"isolation": "fallback", "runtimeClassName": "kata"}) == "kata"
    assert runtime({}) is None


@pytest.mark.parametrize(
    ("isolation", "words"),
    [
        ("userNamespaces", ["1.33", "Linux 6.3", "containerd 2.0", "CRI-O 1.25", "runc 1.2"]),
        ("gvisor", ["RuntimeClass gvisor", "runsc"]),
        ("fallback", ["the level fallback"]),
    ],
)
def test_the_notes_say_what_nodes_need(isolation: str, words: list[str]) -> None:
    notes = render(at("sandbox.isolation", isolation)).notes
    assert [word for word in words if word not in notes] == []
