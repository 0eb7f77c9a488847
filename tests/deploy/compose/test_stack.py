"""The whole stack under a real engine: it comes up, trains, survives, and its sandbox is alone.

`make compose-test` runs it, with a found or installed engine.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from assay_trainer.grpo_config import GRPOConfig
from tests.conftest import wait_until
from tests.support.compose.docker import docker
from tests.support.compose.stack import (
    PROJECT,
    RUN,
    Container,
    compose,
    python,
    run_status,
    running_stack,
    up,
)

pytestmark = [
    pytest.mark.skipif(os.environ.get("ASSAY_DOCKER") != "1", reason="needs ASSAY_DOCKER=1"),
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]
SERVICES = ("redis", "inference", "sandbox", "judge", "reward", "trainer", "worker")
#: In the order of their deaths, each in another step. With the trainer, a step begins again.
VICTIMS = ("worker", "redis", "sandbox", "inference", "judge", "reward", "run", "trainer")
#: Of trial.yaml: more than there are victims, since a run continues without a victim it can spare.
NUM_STEPS, GROUPS_PER_STEP = 20, 16
RUN_TIMEOUT_S = 1800.0
BEYOND = ("169.254.169.254:80", "1.1.1.1:53", "8.8.8.8:53", "example.com:80")
CONNECT = """
import concurrent.futures, socket, sys
def connect(target):
    host, _, port = target.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), timeout=3)
    except OSError as error:
        return f"{target} refused: {error}"
    said = b""
    try:
        connection.sendall(b"GET /health HTTP/1.0\\r\\n\\r\\n")
        while part := connection.recv(4096):
            said += part
    except OSError:
        pass
    return f"{target} " + ("OURS" if b'"service"' in said else "OTHER")
with concurrent.futures.ThreadPoolExecutor(16) as threads:
    print("\\n".join(threads.map(connect, sys.argv[1:])))
"""
#: What the run's folder and Redis hold.
HELD = """
import collections, json, os, pathlib, sys, redis
name = sys.argv[1]
folder = pathlib.Path("/var/lib/assay/runs") / name
groups = [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]
events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
last = max(folder.glob("checkpoints/grpo/checkpoint-*"), key=lambda p: int(p.name.split("-")[1]))
state = json.loads((last / "assay.json").read_text())
client = redis.Redis.from_url(os.environ["ASSAY_REDIS_URL"])
prefix = f"assay:group:{name}/"
stored = [key.decode().removeprefix(prefix) for key in client.scan_iter(prefix + "*")]
done = [event["data"] for event in events if event["kind"] == "step"]
steps = {step["step"]: step for step in done}  # of a step that was done again, the last
rewards = [reward for group in groups for reward in group["rewards"]]
print(json.dumps({
    "trained": [group["group"]["key"] for group in groups if not group["superseded"]],
    "superseded": sum(group["superseded"] for group in groups),
    "workers": sorted({group["worker"] for group in groups}),
    "stored": stored,
    "next_draw": state["next_draw"],
    "unfinished": state["unfinished"],
    "checkpoint": last.name,
    "repeated": len(done) - len(steps),
    "steps": [
        {k: step[k] for k in ("step", "num_played", "refused", "failures", "reward")}
        for step in steps.values()
    ],
    "values": [reward.get("value") for reward in rewards],
}))
"""


@pytest.fixture(scope="module", autouse=True)
def stack() -> Iterator[None]:
    with running_stack():
        yield


def answers(service: str, *targets: str) -> dict[str, str]:
    """Return the reachable addresses of a service's container: ours, or others.

    A gateway beyond this machine may answer in the place of any address without a route here.
    """
    lines = python(service, CONNECT, *targets).splitlines()
    assert len(lines) == len(targets), lines
    found = (line.rpartition(" ") for line in lines)
    return {target: who for target, _, who in found if who in ("OURS", "OTHER")}


def ours(service: str, *targets: str) -> set[str]:
    """Return the services of the stack with an answer in another service's container."""
    return {target for target, who in answers(service, *targets).items() if who == "OURS"}


def gateways() -> list[str]:
    """Return this machine's own addresses in the stack's networks, the sandbox's among them."""
    shown = compose("config", "--format", "json").stdout
    names = [network["name"] for network in json.loads(shown)["networks"].values()]
    form = "{{range .IPAM.Config}}{{.Gateway}}\n{{end}}"
    return docker("network", "inspect", "--format", form, *names).stdout.split()


def test_each_container_has_no_more_than_it_needs() -> None:
    for service in SERVICES:
        details = Container.of(service).details
        host = details["HostConfig"]
        assert host["ReadonlyRootfs"], service
        assert host["CapDrop"] == ["ALL"], service
        assert "no-new-privileges" in str(host["SecurityOpt"]), service
        assert host["Memory"] > 0, service
        assert host["PidsLimit"] > 0, service
        user = details["Config"]["User"]
        assert user == ("999:1000" if service == "redis" else "10001:10001"), service
        bound = [one["HostIp"] for ports in host["PortBindings"].values() for one in ports]
        assert set(bound) <= {"127.0.0.1"}, service
        assert bool(bound) == (service in ("inference", "reward", "trainer")), service


def test_from_inside_the_sandbox_nothing_can_be_reached() -> None:
    ports = {"redis": 6379, "inference": 8001, "judge": 8003, "reward": 8004, "trainer": 8005}
    names = [f"{service}:{port}" for service, port in ports.items()]
    found = [f"{a}:{p}" for s, p in ports.items() for a in Container.of(s).addresses()]
    machine = [f"{a}:{p}" for a in gateways() for p in (22, 53, 80, 8001, 28001, 28004, 28005)]
    assert answers("sandbox", *names, *found, *machine, *BEYOND) == {}


def test_nobody_but_reward_reaches_the_sandbox_and_the_judge() -> None:
    own = [f"{a}:8002" for a in Container.of("sandbox").addresses()]
    judges = [f"{a}:8003" for a in Container.of("judge").addresses()]
    targets = ("sandbox:8002", "judge:8003", *own, *judges)
    assert {"sandbox:8002", "judge:8003", *own} <= ours("reward", *targets)
    for service in ("inference", "trainer", "worker"):
        assert answers(service, *targets) == {}, service
    assert ours("judge", "sandbox:8002", *own, "reward:8004") == set()


@pytest.mark.parametrize("service", ["redis", "inference", "reward", "trainer", "worker"])
def test_only_the_judge_reaches_beyond_the_machine(service: str) -> None:
    if not answers("judge", *BEYOND):
        pytest.skip("this machine reaches nobody either")
    if service == "redis":
        assert set(Container.of(service).details["NetworkSettings"]["Networks"]) == {
            f"{PROJECT}_mesh"
        }
    else:
        assert answers(service, *BEYOND) == {}


def test_containers_killed_in_mid_run_cost_no_group_and_give_no_zero() -> None:
    up()
    table = []
    for step, victim in enumerate(VICTIMS, start=1):
        wait_until(lambda step=step: in_step(step), f"step {step}", RUN_TIMEOUT_S)  # type: ignore[misc]
        table.append((victim, run_status()["step"] + 1, Container.of(victim).kill_and_wait()))
    wait_until(lambda: run_status()["state"] == "finished", "the run to end", RUN_TIMEOUT_S)
    held = json.loads(python("trainer", HELD, RUN))
    again = rescored()
    sys.stdout.write(account(table, held, again))
    trained = [int(key.split("/")[1]) for key in held["trained"]]  # run/draw/task/...
    whole = NUM_STEPS * GROUPS_PER_STEP
    assert len(trained) == len(set(trained)) == whole, "a draw was trained on twice"
    played = {int(key.split("/")[0]) for key in held["stored"] if key[0].isdigit()}
    finished = set(range(held["next_draw"])) - set(held["unfinished"])
    assert finished <= played, "a group was lost"
    assert set(trained) <= finished
    # The step that died with the trainer was done again, from the checkpoint before it. The event
    # of a step comes before its checkpoint.
    assert held["superseded"] <= GROUPS_PER_STEP
    assert held["repeated"] <= 1
    assert [step["step"] for step in held["steps"]] == list(range(1, NUM_STEPS + 1))
    # What was in flight when the trainer died is drawn again, from newer weights; a step may then
    # count groups without signal that the one before it has counted too, fewer than a batch. A
    # group that became too old is played again, and given up after its last attempt.
    counted = sum(step["num_played"] - sum(step["refused"].values()) for step in held["steps"])
    last = str(GRPOConfig(steps=1).group_attempts - 1)
    most_given_up = len({key.split("/")[0] for key in held["stored"] if key.endswith(f"/{last}")})
    assert -most_given_up <= counted - len(finished) < GROUPS_PER_STEP
    assert again["share_changed"] == 0, "a reward was not what the answer deserves"
    assert again["num_compared"] > 100
    for victim, _, _ in table:
        # A worker may end when Redis does, and be started once more.
        assert Container.of(victim).num_restarts in ((1, 2) if victim == "worker" else (1,)), victim


def in_step(step: int) -> bool:
    """Return True if the run has done this number of GRPO steps, and does the next."""
    status = run_status()
    assert status["state"] in ("unknown", "running"), status
    return bool(status["stage"] == "grpo" and status["step"] >= step)


def rescored() -> dict[str, Any]:
    """Return the changes after scoring all stored answers again, in peace."""
    output = "/tmp/again.json"
    command = ("assay", "score", "--answers", f"/var/lib/assay/runs/{RUN}", "--output", output)
    compose("exec", "--no-TTY", "trainer", *command, timeout_s=600)
    shown = compose("exec", "--no-TTY", "trainer", "cat", output).stdout
    return dict(json.loads(shown)["all"])


def account(
    table: list[tuple[str, int, float]], held: dict[str, Any], again: dict[str, Any]
) -> str:
    """Show the table of kills, and the findings, with pytest's -s."""
    steps = [
        f"step {step['step']}: {step['num_played']} groups played, reward {step['reward']}, "
        f"refused {step['refused']}, failures {step['failures']}"
        for step in held["steps"]
    ]
    lines = [
        "\n| killed | in step | healthy again after |\n|---|---|---|",
        *(f"| {victim} | {step} | {seconds:.1f} s |" for victim, step, seconds in table),
        *steps,
        f"{held['next_draw']} draws, unfinished {held['unfinished']}, {len(held['stored'])} groups "
        f"stored, {len(held['trained'])} trained on, by {len(held['workers'])} processes; "
        f"{held['superseded']} superseded, {held['repeated']} steps repeated",
        f"scored again: {json.dumps(again)}",
        compose("logs", "--no-log-prefix", "run").stdout,
    ]
    return "\n".join(lines)
