"""A router without engines says that one is wanted, and new weights wait for it."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from assay_inference.api.app import create_app
from assay_inference.engines.replicas.discovery import AddressList
from assay_inference.engines.replicas.engine import ReplicaEngine
from assay_inference.engines.replicas.replica import Replica
from assay_inference.serving import unserved
from assay_inference.settings import InferenceSettings
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import PolicyVersion
from assay_shared.weights import checkpoint
from tests.conftest import Serve, wait_until
from tests.support.policies import SERVABLE, make_policy_folder, update_of

ASKED = {"prompt": "one", "sampling": {"max_tokens": 2}}


class Engines:
    """The addresses of the engines, as an autoscaler starts and ends them."""

    is_local = False

    def __init__(self, settings: InferenceSettings) -> None:
        self._settings = settings
        self.urls: list[str] = []

    async def names(self) -> list[str]:
        return list(self.urls)

    def make(self, name: str) -> Replica:
        return AddressList(self._settings, (name,)).make(name)


def wanted(client: httpx.Client) -> float:
    found = re.search(r"^assay_inference_wanted (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_demand_without_an_engine_is_counted_until_one_serves_it(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_transformers()
    monkeypatch.setattr(unserved, "_WINDOW_S", 1.0)
    folder = tmp_path / "policy"
    make_policy_folder(folder, config=SERVABLE)
    settings = InferenceSettings(runs=tmp_path, inference_health_interval_s=0.05)
    engines = Engines(settings)
    router = create_app(settings, lambda found: ReplicaEngine(found, engines))
    with (
        httpx.Client(base_url=serve(router), timeout=60) as client,
        ThreadPoolExecutor() as threads,
    ):
        assert wanted(client) == 0
        refused = client.post("/v1/generate", json=ASKED)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert wanted(client) == 1
        assert client.get("/v1/weights").status_code == 200
        wait_until(lambda: wanted(client) == 0, "the refusal to be forgotten")

        policy = PolicyVersion(version=1, digest=checkpoint.digest(folder))
        update = update_of(folder, policy).model_dump(mode="json")
        sent = threads.submit(client.post, "/v1/weights", json=update)
        wait_until(lambda: wanted(client) == 1, "new weights to ask for an engine")
        time.sleep(0.2)
        assert not sent.done()
        engines.urls.append(serve(create_app(InferenceSettings(runs=tmp_path))))
        assert sent.result(60).status_code == 200
        assert client.post("/v1/generate", json=ASKED).status_code == 200
        wait_until(lambda: wanted(client) == 0, "the engine to be idle")

        engines.urls.clear()  # at rest there is none again; the router keeps what it serves
        wait_until(lambda: client.get("/ready").status_code == 503, "the engine to go")
        assert client.post("/v1/generate", json=ASKED).status_code == 503
        assert wanted(client) == 1
