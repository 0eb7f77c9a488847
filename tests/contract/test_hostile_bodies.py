"""Each route of each service, found in its OpenAPI document, with
hostile bodies: the answer is a caller's error, and others do not feel it.
"""

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.hostile_bodies import (
    NAMES,
    Running,
    Watch,
    hostile_bodies,
    post,
    quantile,
    routes_of,
    running_services,
)
from tests.support.policies import make_policy_folder

#: Of a body; what takes more is measured by bench/hostile_bodies.py.
NUM_BYTES = 300_000
#: On two cores that other tests use too; alone it is a tenth of it.
MAX_P99_S = 0.25
MAX_GROWTH_BYTES = 100e6


@pytest.fixture(scope="module")
def all_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    folder = tmp_path_factory.mktemp("hostile")
    make_policy_folder(folder / "policy")
    with running_services(folder, folder / "policy") as services:
        yield services


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_no_body_harms_anybody_else(all_running: dict[str, Running], name: str) -> None:
    url, pid = all_running[name]
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=60) as response:
        routes = list(routes_of(json.load(response), limit_bytes=2**25))
    assert routes
    for route in routes:  # processes and imports of the first time do not count as growth
        post(url, route, hostile_bodies(route, NUM_BYTES)["long texts"]())
    watch = Watch(url, pid)
    wrong: list[str] = []
    try:
        bodies = [
            (route, [(what, make()) for what, make in hostile_bodies(route, NUM_BYTES).items()])
            for route in routes
        ]
        before = watch.begin()
        for route, kinds in bodies:
            for what, body in kinds:
                status, answer = post(url, route, body)
                if not 200 <= status < 500:
                    wrong.append(f"{route.path}: {what}: {status} {answer[:300]!r}")
        growth = watch.most_bytes - before
    finally:
        watch.close()
    assert not wrong, "\n".join(wrong)
    assert len(watch.latencies_s) > 20
    assert quantile(watch.latencies_s, 0.99) < MAX_P99_S
    assert growth < MAX_GROWTH_BYTES
