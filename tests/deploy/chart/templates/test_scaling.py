"""Scaling by KEDA: series of a run are replayed through its formula with the rendered values."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.chart.autoscaler import SYNC_S, Autoscaler
from tests.support.chart.rendering import (
    Manifest,
    Values,
    at,
    container,
    environment,
    example,
    merge,
    render,
)

WORKERS: Values = at("worker.autoscaling.enabled", True)
ENGINES: Values = at("inference.autoscaling.enabled", True)
SANDBOXES: Values = {
    "sandbox": {"autoscaling": {"enabled": True, "by": "waiting"}},
    "monitoring": {"prometheus": "http://prometheus.monitoring:9090"},
}

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "inference/scaledobject.yaml": [{}, merge(ENGINES, at("inference.enabled", False))],
    "sandbox/scaledobject.yaml": [
        {},
        at("sandbox.autoscaling.enabled", True),
        merge(SANDBOXES, at("sandbox.enabled", False)),
    ],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


class Fleet:
    """Workers that each play some groups at once; who is removed is the busiest, as it may be."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self.waiting: list[float] = []
        #: For each worker, the ends of its groups.
        self.workers: list[list[float]] = []
        self.num_cut_off = 0

    @property
    def num_taken(self) -> int:
        return sum(map(len, self.workers))

    def work(self, now_s: float) -> None:
        """End what is over, and take what waits."""
        for worker in self.workers:
            worker[:] = [end for end in worker if end > now_s]
        for worker in self.workers:
            while self.waiting and len(worker) < self._concurrency:
                worker.append(now_s + self.waiting.pop())

    def resize(self, replicas: int) -> None:
        while len(self.workers) < replicas:
            self.workers.append([])
        self.workers.sort(key=len)
        self.num_cut_off += sum(map(len, self.workers[replicas:]))
        for worker in self.workers[replicas:]:
            self.waiting += [60.0 for _ in worker]  # played again
        del self.workers[replicas:]


def steps_of_a_run(seed: int) -> Iterator[tuple[float, list[float]]]:
    """Yield the starts of steps with the seconds of their groups: bursts, updates, a long rest."""
    chance = random.Random(seed)
    now_s = 30.0
    for step in range(30):
        yield now_s, [chance.lognormvariate(3.5, 1) for _ in range(chance.choice([16, 64, 256]))]
        now_s += chance.uniform(60, 400) + (3000 if step == 15 else 0)


def replay(scaled: Manifest, concurrency: int, seed: int) -> tuple[Fleet, list[int], list[int]]:
    """Return the fleet, its sizes, and the polls for which groups waited in a row."""
    autoscaler, fleet, sizes = Autoscaler(scaled), Fleet(concurrency), [0]
    coming, waits, in_a_row = list(steps_of_a_run(seed)), [0], 0
    end_s = coming[-1][0] + 4000
    for now_s in range(0, int(end_s), SYNC_S):
        while coming and coming[0][0] <= now_s:
            fleet.waiting += coming.pop(0)[1]
        fleet.work(now_s)
        metrics = {"rollouts": float(len(fleet.waiting)), "unacked": float(fleet.num_taken)}
        fleet.resize(autoscaler.poll(now_s, metrics))
        fleet.work(now_s)
        sizes.append(autoscaler.replicas)
        is_full = autoscaler.replicas == scaled["spec"]["maxReplicaCount"]
        in_a_row = in_a_row + 1 if fleet.waiting and not is_full else 0
        waits.append(in_a_row)
    return fleet, sizes, waits


@pytest.mark.parametrize("concurrency", [1, 8, 16, 64])
def test_no_worker_that_plays_is_taken_and_no_group_waits_for_two_polls(concurrency: int) -> None:
    scaled = render(merge(WORKERS, at("worker.concurrency", concurrency))).one(
        "worker/scaledobject.yaml"
    )
    for seed in range(5):
        fleet, sizes, waits = replay(scaled, concurrency, seed)
        assert fleet.num_cut_off == 0
        assert max(waits) <= 2 or concurrency == 1, "a tenth of few workers is less than one"
        assert sizes[-1] == 0, "nothing runs at rest"
        middle = [a for a, b in itertools.pairwise(sizes) if b == 0 and a > 0]
        assert len(middle) >= 2, "also in the long rest"


def test_the_replay_can_fail() -> None:
    """Counting waiting groups alone takes workers with groups in flight."""
    scaled = render(WORKERS).one("worker/scaledobject.yaml")
    scaled["spec"]["advanced"]["scalingModifiers"]["formula"] = "waiting"
    fleet, _, _ = replay(scaled, 64, 1)
    assert fleet.num_cut_off > 0
    slow = render(WORKERS).one("worker/scaledobject.yaml")
    slow["spec"]["advanced"]["scalingModifiers"]["target"] = "640"
    assert max(replay(slow, 64, 1)[2]) > 2


def test_workers_that_stay_are_taken_after_a_quiet_cooldown_alone() -> None:
    """A group in flight then ends within the grace, or another worker plays it."""
    scaled = render(merge(WORKERS, at("worker.autoscaling.minReplicas", 2))).one(
        "worker/scaledobject.yaml"
    )
    autoscaler = Autoscaler(scaled)
    assert autoscaler.poll(0, {"rollouts": 640, "unacked": 0}) > 10
    busy = autoscaler.replicas
    for now_s in range(15, 300, 15):
        assert autoscaler.poll(now_s, {"rollouts": 0, "unacked": 1}) == busy
    for now_s in range(300, 700, 15):
        autoscaler.poll(now_s, {"rollouts": 0, "unacked": 0})
    assert autoscaler.replicas == 2
    pod = render(WORKERS).one("worker/deployment.yaml")["spec"]["template"]
    assert pod["spec"]["terminationGracePeriodSeconds"] == 300
    assert environment(pod)["ASSAY_SHUTDOWN_GRACE_S"] == "285"


def test_engines_come_for_what_is_wanted_and_go_when_nothing_is() -> None:
    rendered = render(merge(ENGINES, at("inference.autoscaling.maxReplicas", 3)))
    scaled = rendered.one("inference/scaledobject.yaml")
    trigger = scaled["spec"]["triggers"][0]
    assert trigger["type"] == "metrics-api", "no Prometheus is needed"
    service = rendered.one("inference/service.yaml")["metadata"]
    host = f"{service['name']}.{service['namespace']}.svc"
    assert trigger["metadata"]["url"] == f"http://{host}:8001/metrics"
    engines = Autoscaler(scaled)
    assert engines.poll(0, {"assay_inference_wanted": 0}) == 0
    assert engines.poll(15, {"assay_inference_wanted": 1}) == 1, "a refused request wakes one"
    assert engines.poll(30, {"assay_inference_wanted": 700}) == 3
    for now_s in range(45, 900, 15):
        assert engines.poll(now_s, {"assay_inference_wanted": now_s < 60}) == 3
    for now_s in range(900, 1200, 15):
        engines.poll(now_s, {"assay_inference_wanted": 0})
    assert engines.replicas == 0


def test_a_router_stands_before_engines_that_come_and_go() -> None:
    rendered = render(ENGINES)
    assert rendered.one("inference/router-deployment.yaml")["spec"]["replicas"] == 1
    engine = rendered.one("inference/engine-deployment.yaml")
    assert "replicas" not in engine["spec"]
    target = rendered.one("inference/scaledobject.yaml")["spec"]["scaleTargetRef"]
    assert target["name"] == engine["metadata"]["name"]


def test_sandboxes_follow_the_programs_that_run_or_wait() -> None:
    spec = render(SANDBOXES).one("sandbox/scaledobject.yaml")
    (trigger,) = spec["spec"]["triggers"]
    assert trigger["metadata"]["serverAddress"] == "http://prometheus.monitoring:9090"
    query = trigger["metadata"]["query"]
    assert 'namespace="mesh", job="assay-sandbox"' in query
    sandboxes = Autoscaler(spec)
    assert sandboxes.poll(0, {query: 0}) == 2
    assert sandboxes.poll(15, {query: 40}) == 14
    gvisor = render(merge(SANDBOXES, at("sandbox.isolation", "gvisor")))
    scaled = gvisor.one("sandbox/scaledobject.yaml")
    assert scaled["spec"]["triggers"][0]["metadata"]["threshold"] == "1", "one program a pod"


ONE_OF_EACH = ("inference", "sandbox", "judge", "reward", "trainer", "worker")


def gpus(values: Values) -> int:
    """Return the GPUs that are held while nothing is wanted."""
    held = 0
    rendered = render(values)
    for item in rendered.objects:
        spec = item.get("spec", {})
        if item["kind"] not in ("Deployment", "StatefulSet"):
            continue
        limits: dict[str, Any] = container(spec["template"])["resources"].get("limits", {})
        name = item["metadata"]["name"]
        scaled = [
            one["spec"]["minReplicaCount"]
            for one in rendered.of_kind("ScaledObject")
            if one["spec"]["scaleTargetRef"]["name"] == name
        ]
        replicas = scaled[0] if scaled else spec["replicas"]
        held += replicas * int(limits.get("nvidia.com/gpu", 0))
    return held


def test_the_a100_example_holds_no_gpu_at_rest_unless_it_is_told_to() -> None:
    a100 = example("values-a100.yaml")
    assert gpus(a100) == 0
    assert gpus(merge(a100, at("trainer.replicas", 1))) == 1
    kept = {"inference": {"autoscaling": {"enabled": False}, "replicas": 2}}
    assert gpus(merge(a100, kept)) == 2


def test_each_part_may_have_no_replicas() -> None:
    rendered = render({name: {"replicas": 0} for name in ONE_OF_EACH})
    sizes = {
        item["metadata"]["name"]: item["spec"]["replicas"]
        for item in rendered.objects
        if item["kind"] in ("Deployment", "StatefulSet")
    }
    assert {name for name, size in sizes.items() if size} == {"assay-redis"}
