"""The queue and the disk, measured by the trainer's service."""

from pathlib import Path

import httpx
import pytest

from assay_shared.runs.queue import ROLLOUT_QUEUE, RUN_GROUP_TASK, make_celery
from assay_trainer.service import queue_metrics
from assay_trainer.service.app import create_app
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve, wait_until
from tests.support.valkey import TestValkey


def value(url: str, name: str) -> float | None:
    for line in httpx.get(f"{url}/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    return None


def test_groups_that_wait_are_counted_and_a_lost_redis_is_seen(
    serve: Serve, own_valkey: TestValkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_metrics, "LOOK_EVERY_S", 0.1)
    celery = make_celery(own_valkey.url)
    for number in range(3):
        celery.send_task(RUN_GROUP_TASK, args=[{"number": number}], queue=ROLLOUT_QUEUE)
    url = serve(create_app(TrainerSettings(redis_url=own_valkey.url, runs=tmp_path / "runs")))
    wait_until(lambda: value(url, "assay_queue_waiting") == 3, "the queue to be seen")
    assert value(url, "assay_queue_up") == 1
    assert value(url, "assay_queue_taken") == 0
    own_valkey.kill()
    wait_until(lambda: value(url, "assay_queue_up") == 0, "the loss to be seen")
    own_valkey.start()
    wait_until(lambda: value(url, "assay_queue_up") == 1, "the return to be seen")


def test_the_room_for_runs_is_that_of_the_disk_they_will_be_on(
    serve: Serve, tmp_path: Path
) -> None:
    url = serve(create_app(TrainerSettings(runs=tmp_path / "not" / "yet")))
    free = httpx.get(f"{url}/health").json()["runs_free_bytes"]
    assert free == pytest.approx(queue_metrics.free_bytes(tmp_path), rel=0.1)
    assert value(url, "assay_trainer_runs_free_bytes") == pytest.approx(free, rel=0.1)
