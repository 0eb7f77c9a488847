"""Each replica's figures, by its name."""

from collections.abc import Collection

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from assay_inference.engines.replicas.replica_state import ReplicaState
from assay_shared.types import PolicyVersion

_NAME = "assay_inference_replica"


def replica_metrics(
    members: Collection[ReplicaState], policy: PolicyVersion | None
) -> list[Metric]:
    """Return the metrics of the replicas; `policy` is the router's served version."""
    serving = GaugeMetricFamily(f"{_NAME}_serving", "1 where it gets requests.", labels=["replica"])
    version = GaugeMetricFamily(f"{_NAME}_version", "Version it holds.", labels=["replica"])
    running = GaugeMetricFamily(f"{_NAME}_running", "Sequences in flight.", labels=["replica"])
    drawn = CounterMetricFamily(f"{_NAME}_sequences", "Sequences drawn.", labels=["replica"])
    failures = CounterMetricFamily(
        f"{_NAME}_failures", "What failed, by kind.", labels=["replica", "kind"]
    )
    for member in members:
        serving.add_metric([member.name], float(member.serves({policy})))
        if member.policy is not None:
            version.add_metric([member.name], member.policy.version)
        running.add_metric([member.name], member.num_in_flight)
        drawn.add_metric([member.name], member.num_drawn)
        for kind, number in member.failures.items():
            failures.add_metric([member.name, kind], number)
    return [serving, version, running, drawn, failures, *_own(members)]


def _own(members: Collection[ReplicaState]) -> Collection[Metric]:
    """Return the replicas' own metrics, each sample with the replica's name."""
    families: dict[str, Metric] = {}
    for member in members:
        for one in member.replica.own_metrics():
            family = families.setdefault(one.name, Metric(one.name, one.documentation, one.type))
            for sample in one.samples:
                labels = sample.labels | {"replica": member.name}
                family.add_sample(sample.name, labels, sample.value)
    return families.values()
