"""What Compose's Prometheus and Grafana load: the rules and dashboards of the chart."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from tests.conftest import wait_until
from tests.deploy.compose.test_compose import here, mounted
from tests.support.compose.rendering import ROOT

PROMETHEUS = shutil.which("prometheus")
FILES = ROOT / "k8s" / "assay" / "files"
CONFIG = "/etc/prometheus/prometheus.yml"

needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None, reason="needs prometheus: Debian's package of that name"
)


def alerts() -> list[str]:
    """Return the alerts of the files."""
    groups = [
        group
        for path in (FILES / "rules").glob("*.yml")
        for group in yaml.safe_load(path.read_text())["groups"]
    ]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def container_of(folder: Path, mounts: dict[str, Path]) -> Path:
    """Make a folder with the mounts of Prometheus's container; return its configuration there."""
    for target, source in mounts.items():
        place = folder / target.removeprefix("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(source)
    text = (folder / CONFIG.removeprefix("/")).read_text()
    config = folder / "prometheus.yml"
    config.write_text(text.replace("/etc/prometheus", str(folder / "etc/prometheus")))
    return config


@contextmanager
def prometheus(folder: Path, config: Path) -> Iterator[httpx.Client]:
    """Run the real Prometheus with this configuration; yield a client of it."""
    assert PROMETHEUS is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    process = subprocess.Popen(
        [
            PROMETHEUS,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--log.level=error",
        ]
    )
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=10) as client:

            def is_ready() -> bool:
                assert process.poll() is None, "it ended"
                try:
                    return client.get("/-/ready").status_code == 200
                except httpx.TransportError:
                    return False

            wait_until(is_ready, "Prometheus to be ready", 60)
            yield client
    finally:
        process.kill()
        process.wait()


def loaded(client: httpx.Client) -> list[str]:
    """Return the alerts that Prometheus has loaded."""
    groups = client.get("/api/v1/rules").raise_for_status().json()["data"]["groups"]
    return [rule["name"] for group in groups for rule in group["rules"]]


@needs_prometheus
def test_prometheus_loads_every_rule(tmp_path: Path) -> None:
    with prometheus(tmp_path, container_of(tmp_path, mounted("prometheus"))) as client:
        assert sorted(loaded(client)) == sorted(alerts())


@needs_prometheus
def test_a_wrong_folder_of_rules_is_noticed(tmp_path: Path) -> None:
    """Prometheus itself says nothing about a pattern without files."""
    mounts = mounted("prometheus")
    rules = next(target for target, source in mounts.items() if source == FILES / "rules")
    wrong = {**mounts, rules: ROOT / "deploy" / "prometheus" / "rules"}
    with prometheus(tmp_path, container_of(tmp_path, wrong)) as client:
        assert loaded(client) == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_promtool_takes_the_configuration_with_its_rules(tmp_path: Path) -> None:
    config = container_of(tmp_path, mounted("prometheus"))
    done = subprocess.run(
        ["promtool", "check", "config", str(config)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(alerts())} rules found" in done.stdout


def test_each_mount_of_the_eyes_leads_to_the_charts_files() -> None:
    """This needs no program: a wrong path leaves a folder empty."""
    config = yaml.safe_load(here("prometheus", CONFIG).read_text())
    found = [
        rule["alert"]
        for pattern in config["rule_files"]
        for file in here("prometheus", str(Path(pattern).parent)).glob(Path(pattern).name)
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    ]
    assert found == alerts()
    provided = here("grafana", "/etc/grafana/provisioning") / "dashboards" / "assay.yml"
    (provider,) = yaml.safe_load(provided.read_text())["providers"]
    boards = [
        json.loads(file.read_text())
        for file in here("grafana", provider["options"]["path"]).glob("*.json")
    ]
    assert len(boards) == len(list((FILES / "dashboards").glob("*.json"))) == 7
    assert len({board["uid"] for board in boards}) == 7
