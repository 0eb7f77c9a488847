"""Requests above their limits, and GPUs in two places, are refused with their names."""

import re
from typing import Any

import helm_python
import pytest

from tests.support.chart.parts import EVERYTHING, PARTS
from tests.support.chart.rendering import VERSIONS, at, check, merge, render


def refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=re.escape(message)):
        render(values)


@pytest.mark.parametrize("part", PARTS)
def test_a_request_above_its_limit_is_refused_with_its_part(part: str) -> None:
    """One side alone is set; the other one is the default, or set for this."""
    both: dict[str, Any] = {"requests": {"cpu": "1500m"}, "limits": {"cpu": 1}}
    above = (
        f"{part}.resources.requests.cpu: 1500m is above {part}.resources.limits.cpu: 1; set both"
    )
    refused(at(f"{part}.resources", both), above)


def test_a_limit_below_the_default_request_is_refused() -> None:
    values = {"sandbox": {"slots": 1, "resources": {"limits": {"memory": "2Gi"}}}}
    refused(
        values, "sandbox.resources.requests.memory: 4Gi is above sandbox.resources.limits.memory"
    )


def memory(request: str, limit: str) -> dict[str, Any]:
    quantities = {"requests": {"memory": request}, "limits": {"memory": limit}}
    return at("worker.resources", quantities)


@pytest.mark.parametrize(("less", "more"), [("1G", "1Gi"), ("999999k", "1G"), ("1023", "1Ki")])
def test_quantities_are_compared_by_their_amounts(less: str, more: str) -> None:
    render(memory(less, more))
    refused(memory(more, less), f"worker.resources.requests.memory: {more} is above")


@pytest.mark.parametrize(("one", "same"), [("1024Mi", "1Gi"), ("1000", "1k"), ("0.5Gi", "512Mi")])
def test_a_request_may_be_its_limit(one: str, same: str) -> None:
    render(memory(one, same))
    render(memory(same, one))


GPUS = [
    ("inference", "requests", "nvidia", "nvidia.com/gpu"),
    ("inference", "limits", "none", "nvidia.com/gpu"),
    ("trainer", "requests", "none", "nvidia.com/gpu"),
    ("trainer", "limits", "nvidia", "nvidia.com/mig-3g.40gb"),
]


@pytest.mark.parametrize(("part", "kind", "accelerator", "resource"), GPUS)
def test_gpus_are_asked_for_in_one_place(
    part: str, kind: str, accelerator: str, resource: str
) -> None:
    values = at(f"{part}.resources", {kind: {resource: 2}})
    engine = "transformers" if (part, accelerator) == ("inference", "none") else "vllm"
    chosen = merge(at("inference.engine", engine), at(f"{part}.accelerator", accelerator))
    refused(
        merge(chosen, values), f"{part}.resources.{kind}.{resource}: GPUs come from {part}.gpus"
    )


def test_another_device_is_asked_for_with_its_limit() -> None:
    device = {"requests": {"rdma/hca": 1}}
    refused(at("trainer.resources", device), "trainer.resources.requests.rdma/hca: a device")
    device["limits"] = {"rdma/hca": 1}
    check(render(merge(EVERYTHING, at("trainer.resources", device))), VERSIONS[-1:])
