"""`assay doctor` against real services, well and with planted faults."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from assay_shared.doctor import CheckResult, CheckStatus
from assay_shared.doctor.findings import ServiceLimits
from assay_shared.doctor.queue import examine_queue
from assay_shared.doctor.services import Visit, examine_services
from assay_shared.errors import NotReady, Unreachable
from assay_shared.local.launcher import Launcher, running_services
from assay_shared.settings.environment import ServiceSettings
from tests.conftest import wait_until
from tests.support.policies import make_policy_folder
from tests.support.valkey import TestValkey

TOKEN = "right"
Doctor = Callable[..., tuple[int, dict[str, CheckResult]]]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    home = tmp_path_factory.mktemp("mesh")
    make_policy_folder(home / "policy")
    settings = {
        "ASSAY_TOKEN": TOKEN,
        "ASSAY_INFERENCE_MODEL": str(home / "policy"),
        "ASSAY_SANDBOX_ISOLATION": "fallback",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_TOKEN", TOKEN)
        with running_services(home, num_workers=1, settings=settings) as mesh:
            yield mesh


@pytest.fixture
def doctor(mesh: Launcher) -> Doctor:
    """Runs the command; exit code and findings by check."""

    def run(*options: str, **environment: str) -> tuple[int, dict[str, CheckResult]]:
        done = subprocess.run(
            [sys.executable, "-m", "assay_shared.cli", "doctor", "--json", *options],
            env=os.environ | mesh.environment | environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        findings = [CheckResult(**one) for one in json.loads(done.stdout)]
        return done.returncode, {one.check: one for one in findings}

    return run


@pytest.mark.slow
def test_a_mesh_that_is_well_passes_and_a_fallback_is_said(doctor: Doctor) -> None:
    wait_until(lambda: doctor()[1]["workers"].status is CheckStatus.OK, "a worker", 200)
    code, found = doctor("--min-free-gib", "0")
    assert {name for name, one in found.items() if one.status is not CheckStatus.OK} == {
        "isolation"
    }
    assert found["isolation"].status is CheckStatus.WARN, "on loopback it may be meant so"
    assert "fallback" in found["isolation"].found
    assert found["scoring"].found == "a right program is accepted and a wrong one is not"
    assert code == 0
    code, _ = doctor("--strict", "--min-free-gib", "0")
    assert code == 1


@pytest.mark.slow
def test_people_get_a_table(mesh: Launcher) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "doctor", "--min-free-gib", "0"],
        env=os.environ | mesh.environment | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    (line,) = (line for line in done.stdout.splitlines() if " isolation " in line)
    assert "ASSAY_SANDBOX_MINIMUM_ISOLATION=pooled" in line


@pytest.mark.slow
def test_a_wrong_token_is_named_with_the_variable(doctor: Doctor) -> None:
    code, found = doctor(ASSAY_TOKEN="wrong")
    assert code == 1
    for service in ("inference", "sandbox", "judge", "reward", "trainer"):
        assert found[service].status is CheckStatus.OK, "it answers all the same"
        assert found[f"{service} token"].status is CheckStatus.FAIL
        assert "ASSAY_TOKEN" in found[f"{service} token"].advice


@pytest.mark.slow
def test_a_service_that_is_down_is_found_and_so_is_what_needs_it(
    mesh: Launcher, doctor: Doctor
) -> None:
    mesh.stop_part("sandbox")
    try:
        code, found = doctor("--timeout-s", "1")
        assert code == 1
        assert found["sandbox"].status is CheckStatus.FAIL
        assert "ASSAY_SANDBOX_URL" in found["sandbox"].advice
        assert found["reward"].status is CheckStatus.OK
        assert found["scoring"].status is CheckStatus.FAIL
    finally:
        mesh.start_part("sandbox")
    wait_until(lambda: doctor()[1]["sandbox"].status is CheckStatus.OK, "the sandbox", 200)


@pytest.mark.slow
def test_a_sandbox_that_only_reward_reaches_is_well(doctor: Doctor) -> None:
    _, found = doctor(ASSAY_SANDBOX_URL="http://127.0.0.1:1")
    assert found["sandbox"].status is CheckStatus.OK
    assert "reward reaches it" in found["sandbox"].found


@pytest.mark.slow
def test_one_service_in_the_place_of_another_is_noticed(mesh: Launcher, doctor: Doctor) -> None:
    code, found = doctor(ASSAY_JUDGE_URL=mesh.urls["reward"])
    assert code == 1
    assert "is the reward service" in found["judge"].found


@pytest.mark.slow
def test_a_disk_without_room_is_said(doctor: Doctor) -> None:
    code, found = doctor("--min-free-gib", "1000000")
    assert code == 1
    assert found["disk"].status is CheckStatus.FAIL
    assert "ASSAY_RUNS" in found["disk"].advice


def test_without_redis_the_queue_fails_and_no_worker_is_looked_for(doctor: Doctor) -> None:
    code, found = doctor(ASSAY_REDIS_URL="redis://127.0.0.1:1/0")
    assert code == 1
    assert found["queue"].status is CheckStatus.FAIL
    assert "ASSAY_REDIS_URL" in found["queue"].advice
    assert "workers" not in found


@pytest.mark.slow
def test_a_queue_without_workers_or_that_forgets_is_found(valkey: TestValkey) -> None:
    import redis

    settings = ServiceSettings(redis_url=valkey.url)
    limits = ServiceLimits(timeout_s=1.0)

    def found() -> dict[str, CheckResult]:
        return {one.check: one for one in examine_queue(settings, limits)}

    assert found()["workers"].status is CheckStatus.FAIL
    assert "assay worker" in found()["workers"].advice
    assert found()["queue memory"].status is CheckStatus.OK
    with redis.Redis.from_url(valkey.url) as client:
        try:
            client.config_set("maxmemory", "100mb")
            client.config_set("maxmemory-policy", "allkeys-lru")
            assert found()["queue memory"].status is CheckStatus.FAIL
        finally:
            client.config_set("maxmemory", "0")
            client.config_set("maxmemory-policy", "noeviction")


WELL: dict[str, JsonValue] = {"service": "sandbox", "version": "0.1.0", "isolation": "pooled"}


def visit(name: str = "sandbox", url: str = "http://sandbox:8002", **changes: JsonValue) -> Visit:
    return Visit(name, url, {**WELL, "service": name, **changes}, skew_s=0.2)


def of(check: str, *visits: Visit) -> CheckResult:
    (found,) = (one for one in examine_services(visits, ServiceLimits()) if one.check == check)
    return found


def test_a_version_that_differs_is_named() -> None:
    found = of("versions", visit(), visit("judge", version="0.0.9"))
    assert found.status is CheckStatus.FAIL
    assert "judge 0.0.9" in found.found
    assert of("versions", visit(), visit("judge")).status is CheckStatus.OK


def test_a_clock_that_is_off_is_named() -> None:
    late = visit("judge")
    late.skew_s = -90.0
    found = of("clocks", visit(), late)
    assert found.status is CheckStatus.FAIL
    assert "judge is -90 s off" in found.found


def test_fallback_anywhere_else_than_on_loopback_is_to_be_mended() -> None:
    assert of("isolation", visit(isolation="fallback")).status is CheckStatus.FAIL
    near = visit(url="http://[::1]:8002", isolation="fallback")
    assert of("isolation", near).status is CheckStatus.WARN


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"gpus": 0, "device": "cpu"}, CheckStatus.OK),
        ({"gpus": 2, "device": "cpu"}, CheckStatus.FAIL),
        ({"gpus": 2, "device": "cuda"}, CheckStatus.OK),
        ({"gpus": 2, "engine": "vllm"}, CheckStatus.OK),
        ({}, CheckStatus.UNKNOWN),
    ],
)
def test_a_gpu_that_is_not_used_is_said(facts: dict[str, JsonValue], expected: CheckStatus) -> None:
    inference = Visit("inference", "http://inference:8001", WELL | facts)
    assert of("inference GPU", inference).status is expected


def test_a_judge_that_is_left_alone_and_a_service_that_is_not_ready_are_said() -> None:
    alone = visit("judge", chain=["a", "b"], open_circuits=["a"])
    assert of("judges", alone).status is CheckStatus.WARN
    starting = visit("reward")
    starting.ready_error = NotReady("starting")
    assert of("reward ready", starting).status is CheckStatus.FAIL


def test_every_failure_says_what_to_do() -> None:
    away = Visit("trainer", "http://nowhere:1", health_error=Unreachable("no"))
    for one in examine_services([away], ServiceLimits()):
        assert one.status is CheckStatus.FAIL
        assert one.advice


@pytest.mark.usefixtures("tmp_path")
@pytest.mark.slow
def test_a_wrong_address_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "doctor", "--json", "--timeout-s", "1"],
        env=os.environ | {"ASSAY_JUDGE_URL": "judge:8003", "ASSAY_REDIS_URL": "nonsense"},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert "not an http address" in found["judge"]["found"]
    assert found["queue"]["status"] == "fail"
