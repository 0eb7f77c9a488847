"""Compares this judge with LiteLLM's proxy and TensorZero's gateway: an instant upstream, bursts.

Both have their own environments. LiteLLM's has its proxy extra, with httptools and OpenTelemetry's
SDK: without them it is slower (it searches for the SDK at every request). TensorZero's package has
its gateway. This script starts everything:

    python bench/judge_vs_gateways.py --litellm VENV/bin/litellm --tensorzero VENV/bin/python

A burst on the upstream itself is followed by a burst through each service, so other work on the
machine affects all alike. Only right bodies count. No two requests are alike, and each must reach
the upstream once. The cost is the processor time of a service's own processes. Added latency is a
service's latency less the upstream's in the same turn. Ratios are medians over the turns, with the
lowest and highest turn. This judge parses the verdict of each reply; gateways pass the reply on.
"""

import argparse
import asyncio
import itertools
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import uvloop
import yaml

from assay_sandbox.load.load import LoadStep, Workload, ask, open_session
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_shared.settings.environment import ServiceSettings

CONCURRENCIES = (1, 8, 64)
OUTPUT = Path(__file__).parent / "results" / "judge_vs_gateways.json"
PEERS = ("litellm", "tensorzero")
#: A model with a known price in LiteLLM: its code path for unknown models is slower.
_MODEL = "gpt-4o-mini"
_START_TIMEOUT_S = 120.0
_GRACE_S = 10.0
_WARM_UP_S = 1.0
#: Placeholder for the unique number of each request.
_MARK = "@number@"
#: No settings of this shell: e.g. without compiled files, LiteLLM reads a module at every request.
_ENVIRONMENT = {
    k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "LITELLM_", "PYTHON"))
}


JUDGE = Workload(
    "/v1/judge",
    {
        "question": "What is the capital of France?",
        "reference": "Paris",
        "answers": [f"It is Paris, as I was told {_MARK} times."],
    },
    lambda answer: [one["label"] for one in answer["judgements"]] == ["CORRECT"],
)


def chat(body: dict[str, Any], path: str = "/v1/chat/completions") -> Workload:
    """Return the same work in the upstream's own format."""

    def is_right(answer: dict[str, Any]) -> bool:
        content = answer["choices"][0]["message"]["content"]
        return bool(json.loads(content)["verdict"] == "CORRECT")

    return Workload(path, body, is_right)


@dataclass(frozen=True)
class Target:
    """A service under test, or the upstream."""

    name: str
    url: str
    workload: Workload
    process: psutil.Process

    def cpu_s(self) -> float:
        """Return the processor time of its processes since their start, ended ones included."""
        tree = [self.process, *self.process.children(recursive=True)]
        return sum(sum(one.cpu_times()[:4]) for one in tree)


@dataclass(frozen=True)
class Burst:
    """The figures of a target in a turn."""

    step: LoadStep
    cpu_s: float

    @property
    def not_right(self) -> int:
        return self.step.num_wrong + self.step.num_refused + self.step.num_errors

    @property
    def per_core_s(self) -> float:
        """Right answers per second of its processor time."""
        return self.step.num_right / self.cpu_s if self.cpu_s else float("inf")

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of processor time for a right answer."""
        return 1000 / self.per_core_s if self.step.num_right else float("nan")

    def percentile(self, share: int) -> float:
        return self.step.percentile(share) or float("nan")


@dataclass
class Processes:
    """The started processes, with their logs in `folder`."""

    folder: Path
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> psutil.Process:
        process = spawn(command, log=self.log(name), environment=_ENVIRONMENT | dict(environment))
        self.started.append(process)
        return psutil.Process(process.pid)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def wait(self, name: str, process: psutil.Process, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline or process.status() == psutil.STATUS_ZOMBIE:
                raise SystemExit("\n".join([f"{name} does not start", *self._end_of(name)]))
            time.sleep(0.1)

    def _end_of(self, name: str) -> list[str]:
        return last_lines(self.log(name), 20)

    def announced(self, name: str, process: psutil.Process) -> str:
        """Wait for a process to log its address, and return the address."""
        pattern = re.compile(r"listening on (http://[\d.:]+)")
        self.wait(name, process, lambda: bool(pattern.search(self.log(name).read_text())))
        found = pattern.search(self.log(name).read_text())
        assert found
        return found.group(1)


@contextmanager
def started(litellm: Path, tensorzero: Path, folder: Path) -> Iterator[list[Target]]:
    """Start the upstream and the three services in front of it; yield all as targets.

    The other services get the body that this judge sends to the upstream.
    """
    processes = Processes(folder)
    try:
        script = Path(__file__).parent / "instant_upstream.py"
        upstream = processes.start("upstream", [sys.executable, str(script)], {})
        upstream_url = processes.announced("upstream", upstream)
        ours = start_ours(processes, upstream_url)
        post_json(ours.url + JUDGE.path, JUDGE.body)
        sent = get_seen(upstream_url)["last"]
        yield [
            Target("upstream", upstream_url, chat(sent), upstream),
            ours,
            start_litellm(processes, upstream_url, litellm, sent),
            start_tensorzero(processes, upstream_url, tensorzero, sent),
        ]
    finally:
        end(processes.started, _GRACE_S)


def post_json(url: str, body: dict[str, Any]) -> None:
    """Post a body as JSON and ignore the answer."""
    head = {"content-type": "application/json"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), head)
    urllib.request.urlopen(asked, timeout=_GRACE_S).close()


def get_seen(upstream_url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{upstream_url}/seen", timeout=_GRACE_S) as response:
        return dict(json.load(response))


def start_ours(processes: Processes, upstream: str) -> Target:
    """Start this judge with a single provider, no cache and no deterministic checks."""
    chain = processes.folder / "judge.yaml"
    provider = {
        "kind": "openai",
        "name": "upstream",
        "base_url": f"{upstream}/v1",
        "model": _MODEL,
        "limits": {"concurrency": max(CONCURRENCIES)},
    }
    chain.write_text(yaml.safe_dump({"chain": [provider]}))
    process = processes.start(
        "ours",
        [sys.executable, "-m", "assay_shared.cli", "judge", "serve", "--port", "0"],
        # Run the same code as this script.
        {"ASSAY_JUDGE_CONFIG": str(chain), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return Target("ours", processes.announced("ours", process), JUDGE, process)


def start_litellm(
    processes: Processes, upstream: str, litellm: Path, sent: dict[str, Any]
) -> Target:
    """Start LiteLLM as in its production guide: one worker, only errors logged; and no database."""
    config = processes.folder / "litellm.yaml"
    parameters = {"model": f"openai/{_MODEL}", "api_base": f"{upstream}/v1", "api_key": "none"}
    config.write_text(
        yaml.safe_dump({"model_list": [{"model_name": _MODEL, "litellm_params": parameters}]})
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = processes.start(
        "litellm",
        [
            *(str(litellm), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
            *("--num_workers", "1", "--telemetry", "False"),
        ],
        {
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            # This judge asks for no token either.
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        },
    )
    processes.wait("litellm", process, lambda: is_listening(port))
    return Target("litellm", f"http://127.0.0.1:{port}", chat(sent), process)


_TENSORZERO = """
[gateway]
observability.enabled = false
disable_pseudonymous_usage_analytics = true

[models.judge]
routing = ["upstream"]

[models.judge.providers.upstream]
type = "openai"
api_base = "{upstream}/v1/"
model_name = "{model}"
api_key_location = "none"
"""


def start_tensorzero(
    processes: Processes, upstream: str, python: Path, sent: dict[str, Any]
) -> Target:
    """Start TensorZero's gateway without its database, so it stores nothing."""
    config = processes.folder / "tensorzero.toml"
    config.write_text(_TENSORZERO.format(upstream=upstream, model=_MODEL))
    script = Path(__file__).parent / "tensorzero_gateway.py"
    process = processes.start("tensorzero", [str(python), str(script), str(config)], {})
    body = sent | {"model": "tensorzero::model_name::judge"}
    url = processes.announced("tensorzero", process)
    return Target("tensorzero", url, chat(body, "/openai/v1/chat/completions"), process)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def compare(targets: list[Target], num_bursts: int, burst_s: float) -> list[dict[str, Any]]:
    rows = []
    async with open_session(ServiceSettings()) as session:
        for target in targets:
            await put_load(session, target, max(CONCURRENCIES), _WARM_UP_S)
        for concurrency in CONCURRENCIES:
            seen: dict[str, list[Burst]] = {target.name: [] for target in targets}
            for _ in range(num_bursts):
                for target in targets:
                    before = get_seen(targets[0].url)["count"]
                    burst = await put_load(session, target, concurrency, burst_s)
                    num_asked = get_seen(targets[0].url)["count"] - before
                    if num_asked < burst.step.num_right:
                        raise SystemExit(f"{target.name} did not ask the upstream every time")
                    seen[target.name].append(burst)
            rows.append(row(concurrency, seen))
            print(lines(rows[-1]), flush=True)
    return rows


async def put_load(
    session: aiohttp.ClientSession, target: Target, concurrency: int, duration_s: float
) -> Burst:
    """Send unique requests without pause for `duration_s`, and return the figures."""
    step = LoadStep(concurrency)
    before, after = json.dumps(target.workload.body).encode().split(_MARK.encode())
    numbers = itertools.count(time.time_ns())  # different from the numbers of other bursts
    cpu_s, began = target.cpu_s(), time.monotonic()

    async def ask_on() -> None:
        while time.monotonic() - began < duration_s:
            body = before + b"%d" % next(numbers) + after
            step.add(await ask(session, target.url + target.workload.path, body, target.workload))

    await asyncio.gather(*(ask_on() for _ in range(concurrency)))
    step.duration_s = time.monotonic() - began
    return Burst(step, target.cpu_s() - cpu_s)


def row(concurrency: int, seen: dict[str, list[Burst]]) -> dict[str, Any]:
    return {
        "concurrency": concurrency,
        "targets": {name: facts(seen, name) for name in seen},
        "ours_over": {name: compare_with(seen, name) for name in PEERS},
    }


def compare_with(seen: dict[str, list[Burst]], name: str) -> dict[str, dict[str, float]]:
    """Return this judge's figures over another service's."""
    ratios = {
        f"added_p{share}": spread(added(seen, "ours", share), added(seen, name, share))
        for share in (50, 99)
    }
    cpu_ms = [[burst.cpu_ms for burst in seen[one]] for one in ("ours", name)]
    return ratios | {"cpu_ms": spread(*cpu_ms)}


def added(seen: dict[str, list[Burst]], name: str, share: int) -> list[float]:
    """Return the latency in milliseconds added to the upstream's, turn by turn."""
    return [
        burst.percentile(share) - upstream.percentile(share)
        for burst, upstream in zip(seen[name], seen["upstream"], strict=True)
    ]


def spread(ours: list[float], theirs: list[float]) -> dict[str, float]:
    turns = [one / other for one, other in zip(ours, theirs, strict=True)]
    return {"median": statistics.median(turns), "low": min(turns), "high": max(turns)}


def facts(seen: dict[str, list[Burst]], name: str) -> dict[str, Any]:
    """Return a target's medians over the turns. Latencies are in milliseconds."""
    bursts = seen[name]
    middle = {
        "per_s": [burst.step.per_s for burst in bursts],
        "per_core_s": [burst.per_core_s for burst in bursts],
        "cpu_ms": [burst.cpu_ms for burst in bursts],
        "p50_ms": [burst.percentile(50) for burst in bursts],
        "p99_ms": [burst.percentile(99) for burst in bursts],
        "added_p50_ms": added(seen, name, 50),
        "added_p99_ms": added(seen, name, 99),
    }
    return {quantity: statistics.median(values) for quantity, values in middle.items()} | {
        "right": sum(burst.step.num_right for burst in bursts),
        "not_right": sum(burst.not_right for burst in bursts),
    }


HEADINGS = (
    "| at once | asked | right/s | CPU ms each | right/s per core | p50 ms | p99 ms | added p50 | "
    "added p99 | not right |\n|---|---|---|---|---|---|---|---|---|---|"
)
_LINE = (
    "| {concurrency} | {name} | {per_s:.0f} | {cpu_ms:.3f} | {per_core_s:.0f} | {p50_ms:.2f} | "
    "{p99_ms:.2f} | {added_p50_ms:.2f} | {added_p99_ms:.2f} | {not_right} |"
)


def lines(facts: dict[str, Any]) -> str:
    shown = [
        _LINE.format(concurrency=facts["concurrency"], name=name, **target)
        for name, target in facts["targets"].items()
    ]
    for peer, compared in facts["ours_over"].items():
        ratios = {
            name: "{median:.2f} ({low:.2f} to {high:.2f})".format(**ratio)
            for name, ratio in compared.items()
        }
        shown.append(
            "| {} | ours / {} | | {cpu_ms} | | | | {added_p50} | {added_p99} | |".format(
                facts["concurrency"], peer, **ratios
            )
        )
    return "\n".join(shown)


def version(*command: str) -> str:
    """Return the version printed by a command."""
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.search(r"\d+\.\d+\.\d+\S*", shown)
    assert found, shown
    return found.group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--litellm", type=Path, required=True, help="LiteLLM's executable")
    parser.add_argument(
        "--tensorzero", type=Path, required=True, help="a Python with the package tensorzero"
    )
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--burst-s", type=float, default=3.0)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    asked = "import importlib.metadata as m; print(m.version('tensorzero'))"
    found: dict[str, Any] = {
        "litellm": version(str(arguments.litellm), "--version"),
        "tensorzero": version(str(arguments.tensorzero), "-c", asked),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        started(arguments.litellm, arguments.tensorzero, Path(folder)) as targets,
    ):
        print(HEADINGS)
        found["rows"] = uvloop.run(compare(targets, arguments.bursts, arguments.burst_s))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
