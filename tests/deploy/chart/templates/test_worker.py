"""Rollout workers, and their scaling."""

import pytest
import redis

from assay_shared.runs.queue import ROLLOUT_QUEUE, RUN_GROUP_TASK, make_celery
from tests.support.chart.rendering import Values, at, container, environment, merge, render
from tests.support.valkey import TestValkey

QUEUE = {"worker": {"autoscaling": {"enabled": True, "by": "queue"}}}
CPU = {"worker": {"autoscaling": {"enabled": True, "by": "cpu", "minReplicas": 1}}}
OFF = at("worker.enabled", False)
EXTERNAL = {
    "redis": {
        "enabled": False,
        "external": {
            "host": "redis.example.com",
            "port": 6380,
            "database": 2,
            "tls": True,
            "cidrs": ["10.0.0.9/32"],
        },
    }
}

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "worker/deployment.yaml": [OFF],
    "worker/serviceaccount.yaml": [OFF],
    "worker/pdb.yaml": [OFF, at("worker.podDisruptionBudget.enabled", False)],
    "worker/hpa.yaml": [{}, QUEUE, merge(CPU, OFF)],
    "worker/scaledobject.yaml": [{}, CPU, merge(QUEUE, OFF)],
    "worker/triggerauthentication.yaml": [{}, CPU, merge(QUEUE, OFF)],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


def test_a_deployment_plays_groups_and_finishes_them_before_it_goes() -> None:
    rendered = render({"worker": {"concurrency": 3, "graceS": 600}})
    pod = rendered.one("worker/deployment.yaml")["spec"]["template"]
    assert container(pod)["args"] == ["assay", "worker", "--concurrency", "3"]
    assert pod["spec"]["terminationGracePeriodSeconds"] == 600
    assert int(environment(pod)["ASSAY_SHUTDOWN_GRACE_S"]) < 600
    assert environment(pod)["ASSAY_REDIS_URL"] == "redis://assay-redis:6379/0"
    assert "secretKeyRef" in environment(pod)["ASSAY_REDIS_PASSWORD"]
    account = rendered.one("worker/serviceaccount.yaml")["metadata"]["name"]
    assert pod["spec"]["serviceAccountName"] == account


def test_a_worker_is_ready_when_it_answers_and_outlives_its_broker() -> None:
    box = container(render().one("worker/deployment.yaml")["spec"]["template"])
    ready, alive = box["readinessProbe"], box["livenessProbe"]
    assert ready["exec"]["command"] == alive["exec"]["command"] == ["assay", "worker", "--ping"]
    assert ready["periodSeconds"] * ready["failureThreshold"] <= 60
    assert alive["periodSeconds"] * alive["failureThreshold"] >= 600


def test_an_external_redis_is_named_whole() -> None:
    rendered = render(merge(QUEUE, EXTERNAL))
    pod = rendered.one("worker/deployment.yaml")["spec"]["template"]
    assert environment(pod)["ASSAY_REDIS_URL"] == "rediss://redis.example.com:6380/2"
    trigger = rendered.one("worker/scaledobject.yaml")["spec"]["triggers"][0]["metadata"]
    assert trigger["address"] == "redis.example.com:6380"
    assert (trigger["databaseIndex"], trigger["enableTLS"]) == ("2", "true")


def test_a_scaledobject_looks_at_what_celery_keeps(valkey: TestValkey) -> None:
    """A waiting group is an element of a list, one in flight a field of a hash."""
    triggers = render(QUEUE).one("worker/scaledobject.yaml")["spec"]["triggers"]
    names = {trigger["name"]: trigger["metadata"]["listName"] for trigger in triggers}
    celery = make_celery(valkey.url)
    for _ in range(3):
        celery.send_task(RUN_GROUP_TASK, args=[{}], queue=ROLLOUT_QUEUE)
    with redis.Redis.from_url(valkey.url) as client, celery.connection_for_read() as connection:
        assert client.llen(names["waiting"]) == 3
        taken = connection.SimpleQueue(ROLLOUT_QUEUE).get(timeout=10)
        assert client.llen(names["waiting"]) == 2
        assert client.hlen(names["taken"]) == 1
        taken.ack()
        assert client.hlen(names["taken"]) == 0


def test_a_scaledobject_scales_the_deployment() -> None:
    values = {"minReplicas": 3, "maxReplicas": 30, "cooldownS": 60}
    rendered = render(merge(QUEUE, {"worker": {"concurrency": 16, "autoscaling": values}}))
    spec = rendered.one("worker/scaledobject.yaml")["spec"]
    deployment = rendered.one("worker/deployment.yaml")
    assert spec["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert "replicas" not in deployment["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (3, 30)
    modifiers = spec["advanced"]["scalingModifiers"]
    assert modifiers["formula"] == "waiting + taken"
    assert 16 / 1.2 < int(modifiers["target"]) <= 16 / 1.1, "a tenth above it needs no worker"
    assert spec["cooldownPeriod"] == 60


def test_a_triggerauthentication_names_the_secret() -> None:
    rendered = render(merge(QUEUE, at("redis.existingSecret", "ours")))
    authentication = rendered.one("worker/triggerauthentication.yaml")
    trigger = rendered.one("worker/scaledobject.yaml")["spec"]["triggers"][0]
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    assert authentication["spec"]["secretTargetRef"] == [
        {"parameter": "password", "name": "ours", "key": "password"}
    ]


def test_an_hpa_scales_by_cpu_instead() -> None:
    spec = render(CPU).one("worker/hpa.yaml")["spec"]
    assert spec["scaleTargetRef"]["name"] == "assay-worker"
    assert spec["metrics"][0]["resource"]["name"] == "cpu"


def test_a_pdb_lets_one_go_at_a_time() -> None:
    assert render().one("worker/pdb.yaml")["spec"]["maxUnavailable"] == 1
