"""Services and Redis are reached over IPv4 and over IPv6."""

import functools
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import helm_python
import pytest
import redis

from tests.conftest import wait_until
from tests.support.chart.parts import every_pod
from tests.support.chart.rendering import at, check, container, environment, render
from tests.support.ports import free_port

#: All containers of ours that listen.
LISTENERS = {
    *("engine", "router", "judge", "reward", "sandbox"),
    "trainer StatefulSet",
}


@pytest.mark.parametrize("listen", ["0.0.0.0,::", "::", "0.0.0.0"])
def test_every_listener_follows_one_value(listen: str) -> None:
    pods = every_pod(at("listen", listen))
    found = {
        name: args[args.index("--host") + 1]
        for name, pod in pods.items()
        if "--host" in (args := container(pod).get("args", ()))
    }
    assert found == dict.fromkeys(LISTENERS, listen)


@pytest.mark.parametrize(
    ("listen", "bind"),
    [("0.0.0.0,::", "0.0.0.0 -::"), ("::", "::"), ("0.0.0.0", "0.0.0.0")],
)
def test_redis_follows_it_in_its_own_words(listen: str, bind: str) -> None:
    text = render(at("listen", listen)).one("redis/configmap.yaml")["data"]["redis.conf"]
    assert f"\nbind {bind}\n" in text


@pytest.mark.parametrize("listen", ["", "localhost", "0.0.0.0, ::", "0.0.0.0;::"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(helm_python.HelmValuesError, match="/listen"):
        render(at("listen", listen))


def test_a_services_own_command_answers_over_both(tmp_path: Path) -> None:
    """The judge's container, but for its port: the kubelet's probe may come by either family."""
    box = container(render().one("judge/deployment.yaml")["spec"]["template"])
    port = free_port()
    arguments = [str(port) if text == "8003" else text for text in box["args"]]
    assay = Path(sys.executable).with_name(arguments[0])
    variables = {"ASSAY_JUDGE_SHARED": "process", "ASSAY_JUDGE_TOKEN": "t" * 32}
    service = subprocess.Popen([assay, *arguments[1:]], env=os.environ | variables, cwd=tmp_path)
    try:
        for host in ("127.0.0.1", "[::1]"):
            url = f"http://{host}:{port}{box['livenessProbe']['httpGet']['path']}"
            wait_until(functools.partial(_answers, url), f"an answer from {url}")
    finally:
        service.terminate()
        service.wait(timeout=20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def test_addresses_of_ipv6_are_taken_where_addresses_are() -> None:
    dns = render(at("networkPolicy.dns.address", "fd00::a")).one("network/dns.yaml")
    assert {"ipBlock": {"cidr": "fd00::a/128"}} in dns["spec"]["egress"][1]["to"]
    four = render(at("networkPolicy.dns.address", "169.254.20.10")).one("network/dns.yaml")
    assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in four["spec"]["egress"][1]["to"]
    for wrong in ("fd00::/8", "fd00:", "1.2.3", "dns"):
        with pytest.raises(helm_python.HelmValuesError, match="/networkPolicy/dns/address"):
            render(at("networkPolicy.dns.address", wrong))
    external = {"host": "fd00:10::9", "cidrs": ["fd00:10::/64"]}
    values = {
        "redis": {"enabled": False, "external": external},
        "worker": {"autoscaling": {"enabled": True}},
    }
    rendered = render(values)
    check(rendered)
    assert "fd00:10::/64" in str(rendered.one("network/worker.yaml"))
    url = environment(dict(rendered.pods())["assay-worker"])["ASSAY_REDIS_URL"]
    assert redis.ConnectionPool.from_url(url).connection_kwargs["host"] == "fd00:10::9"
    trigger = rendered.one("worker/scaledobject.yaml")["spec"]["triggers"][0]
    assert trigger["metadata"]["address"] == "[fd00:10::9]:6379"
