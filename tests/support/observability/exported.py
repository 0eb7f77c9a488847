"""Exports of the real services: the families of their registries, with types and labels."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_trainer.service.app import create_app as create_trainer
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve, wait_until
from tests.support.sglang.interpreter import sglang_settings

#: Of a child, under its own names; and what `prometheus_client` adds about a counter's age.
_OTHERS = ("vllm:", "sglang:")
Families = dict[str, "Family"]


class Family(NamedTuple):
    """A metric by its name in PromQL."""

    kind: str
    labels: frozenset[str]


def families(registry: CollectorRegistry) -> Families:
    """Return everything in a registry, also metrics without a sample yet."""
    found: Families = {}
    for collector in tuple(registry._collector_to_names):
        for metric in collector.collect():
            if metric.name.startswith(_OTHERS):
                continue
            source = collector if isinstance(collector, MetricWrapperBase) else metric
            labels = set(getattr(source, "_labelnames", ()))
            if metric.type == "info":
                labels |= {key for sample in metric.samples for key in sample.labels}
            found[_asked_for(metric.name, metric.type)] = Family(metric.type, frozenset(labels))
    return found


def _asked_for(name: str, kind: str) -> str:
    suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
    return name + suffix


def export_all(serve: Serve, folder: Path, policy: Path) -> dict[str, Families]:
    """Return the families of each service; inference routes to an engine in a child and another."""
    engine = create_inference(sglang_settings(inference_model=policy))
    router = create_inference(
        InferenceSettings(inference_engine="replicas", inference_replicas=serve(engine))
    )
    alone = create_inference(InferenceSettings(inference_device="cpu"))
    apps: dict[str, list[FastAPI]] = {
        "inference": [engine, router, alone],
        "sandbox": [create_sandbox(SandboxSettings(sandbox_slots=1))],
        "judge": [create_judge(JudgeSettings())],
        "reward": [create_reward(RewardSettings(executor_config=_executor(folder)))],
        "trainer": [create_trainer(TrainerSettings(runs=folder / "runs"))],
    }
    for app in (app for some in apps.values() for app in some if app is not engine):
        serve(app)
    # The router and the engine have checked their children once, some seconds after the start.
    wait_until(lambda: "assay_inference_cache_use" in dict(_all([engine])), "the child's metrics")
    return {name: dict(_all(some)) for name, some in apps.items()}


def _executor(folder: Path) -> Path:
    """Write the configuration of an executor that nobody asks; return its path."""
    path = folder / "executor.yaml"
    model = "{name: a, base_url: 'http://127.0.0.1:9/v1', model: m}"
    path.write_text(f"cache: true\nmodels: [{model}]\n")
    return path


def _all(apps: list[FastAPI]) -> Iterator[tuple[str, Family]]:
    for app in apps:
        yield from families(app.state.metrics.registry).items()
