"""The parts of a mesh, and the kill of one."""

from pathlib import Path

import pytest

from assay_shared.errors import ConfigError, Conflict, NotFound
from assay_shared.local.launcher import Launcher, running_services
from assay_shared.runs.run_lock import held
from tests.support.valkey import TestValkey


def test_replicas_of_inference_stand_behind_its_usual_address(tmp_path: Path) -> None:
    mesh = Launcher(tmp_path, num_workers=1, usual_ports=False, num_inference_replicas=2)
    try:
        parts = {part.name: part for part in mesh._parts}
        router = parts["inference"].environment
        addresses = [
            "http://{}:{}".format(*listener.getsockname())
            for name in ("inference-1", "inference-2")
            if (listener := parts[name].listener) is not None
        ]
        assert router["ASSAY_INFERENCE_ENGINE"] == "replicas"
        assert router["ASSAY_INFERENCE_REPLICAS"] == ",".join(addresses)
        assert parts["inference-1"].environment == {}
        assert mesh.environment["ASSAY_INFERENCE_URL"] not in addresses
    finally:
        mesh.stop()


def test_one_inference_stands_alone(tmp_path: Path) -> None:
    mesh = Launcher(tmp_path, num_workers=1, usual_ports=False)
    try:
        names = [part.name for part in mesh._parts]
        assert [name for name in names if name.startswith("inference")] == ["inference"]
    finally:
        mesh.stop()


def test_a_given_redis_stands_in_for_valkey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valkey: TestValkey
) -> None:
    monkeypatch.setenv("ASSAY_REDIS_URL", valkey.url)
    for in_use, expected in ((True, valkey.url), (False, "unix://")):
        mesh = Launcher(tmp_path, num_workers=1, usual_ports=in_use)
        try:
            assert mesh.environment["ASSAY_REDIS_URL"].startswith(expected)
            assert ("valkey" in [part.name for part in mesh._parts]) is not in_use
        finally:
            mesh.stop()


def test_a_folder_has_the_services_of_one_process(tmp_path: Path) -> None:
    with (
        held(tmp_path, lock="services.lock"),
        pytest.raises(Conflict, match=r"with its services belongs to process \d+ on "),
        running_services(tmp_path, num_workers=1),
    ):
        pytest.fail("they started")


def test_a_given_redis_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REDIS_URL", f"unix://{tmp_path}/valkey.sock")
    with pytest.raises(ConfigError, match=r"ASSAY_REDIS_URL: no Redis: .*unset it for an embedded"):
        Launcher(tmp_path, num_workers=1, usual_ports=True)


def test_kills_stop_before_they_would_end_the_mesh(tmp_path: Path) -> None:
    mesh = Launcher(tmp_path, num_workers=1, usual_ports=False, services=())
    (part,) = mesh._parts
    part.command = ("sleep", "600")
    try:
        with pytest.raises(NotFound):
            mesh.crash_part("worker-1")
        mesh.start()
        pids = [mesh.processes["worker-1"]]
        for _ in range(3):
            assert mesh.crash_part("worker-1") == pids[-1]
            assert part.process is not None
            assert part.process.wait(10) == -9
            mesh.watch()
            pids.append(mesh.processes["worker-1"])
        assert len(set(pids)) == 4
        with pytest.raises(Conflict, match="started 4 times"):
            mesh.crash_part("worker-1")
        for _ in range(2):  # it may still crash
            assert part.process is not None
            part.process.kill()
            part.process.wait(10)
            mesh.watch()
        with pytest.raises(NotFound, match="worker-2"):
            mesh.crash_part("worker-2")
    finally:
        mesh.stop()
