"""The demo and `assay up` as commands, with another copy running in the same place."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from assay_shared.local.launcher import Launcher
from assay_trainer.rollouts.rollout_log import read_rollouts
from tests.conftest import wait_until
from tests.support.runs import LOOKUP, QUICK

Start = Callable[..., "subprocess.Popen[str]"]
_NUM_STEPS = 12
_LONGER = (
    f"grpo.steps={_NUM_STEPS}",
    "grpo.groups_per_step=8",
    "grpo.group_size=8",
    "grpo.max_groups_per_step=96",
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command; end leftovers of a failed test."""
    processes = []

    def start(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "assay_shared.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=os.environ | environment,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=120)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_the_demo_shows_reports_and_leaves_nothing(mesh: Launcher, start: Start) -> None:
    """`mesh` is the other copy."""
    process = start("demo", *QUICK, "--home", "home")
    wait_until(lambda: len(family(process)) >= 9, "all processes", timeout_s=400)
    seen = family(process)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    for word in ("SFT ...", "GRPO ...", "pass@1", "95% interval", "no process is left"):
        assert word in output
    report = re.search(r"^report: (\S+)$", output, re.MULTILINE)
    assert report is not None
    for suffix in (".md", ".html", ".json"):
        assert Path(report.group(1)).with_suffix(suffix).exists()
    shown = finished(start("show", str(Path(report.group(1)).parent), "--json", XDG_CACHE_HOME="c"))
    run = json.loads(shown)
    funnel = {row["name"]: row["samples"] for row in run["funnel"]}
    num_stored = run["stored"]["num_samples"]
    assert num_stored > 0, "a run that learns nothing keeps its groups too"
    assert funnel.get("generated", 0) <= num_stored
    assert run["problems"] == []
    assert [p for p in seen if p.is_running()] == []
    assert not [p for p in Path("/tmp").glob("assay-*/valkey.sock") if str(p) in output]


def test_a_demo_that_is_killed_takes_its_processes_along(start: Start) -> None:
    process = start("demo", *QUICK, "--home", "home")
    wait_until(lambda: len(family(process)) >= 9, "all processes", timeout_s=400)
    time.sleep(1)
    seen = family(process)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not [p for p in seen if alive(p)], "all to end", timeout_s=40)


@pytest.mark.nightly
def test_kills_from_its_page_lose_nothing_and_both_policies_answer(
    start: Start, tmp_path: Path
) -> None:
    """Two processes are killed by the page's requests in the middle of GRPO."""
    process = start("demo", *LOOKUP, *_LONGER, "--home", "home", "--stay", PYTHONUNBUFFERED="1")
    page = DemoPage(process)
    for step, victim in ((1, "worker-1"), (2, "inference")):
        wait_until(partial(page.has_done, step), f"step {step}", timeout_s=400)
        assert page.send(f"/demo/kills/{victim}")["name"] == victim
        assert page.step() < _NUM_STEPS, "in the middle of GRPO"
    page.wait_for("ask the policy before and after")
    account = page.facts()
    assert account["asked"] > 16
    parts = account["trained"] + account["discarded"] + account["in_flight"]
    assert account["asked"] == parts
    assert (account["missing"], account["repeated"]) == (0, 0)
    assert page.text("/demo/account").count("back after") == 2
    task = re.search(r'<option value="([^"]+)"', page.text("/demo/chat"))
    assert task is not None
    for question in ({"task": task.group(1)}, {"prompt": "Write solve(x)."}):
        answers = page.answers(question)
        assert [answers.count(f'data-policy="{name}"') for name in ("before", "after")] == [1, 1]
        assert len(set(re.findall("weights ([0-9a-f]{12})", answers))) == 2
        assert answers.count("reward <b>") == (10 if "task" in question else 0)
    seen = family(process)
    os.kill(process.pid, signal.SIGINT)
    output = page.rest()
    assert process.returncode == 0, output
    assert "no process is left" in output
    assert [one for one in seen if alive(one)] == []
    rollouts = list(read_rollouts(tmp_path / "home" / "demo" / "rollouts.jsonl"))
    draws = [one.group.key.split("/")[1] for one in rollouts]
    assert len(draws) == len(set(draws)) == account["trained"]


class DemoPage:
    """The page of a running demo, as a browser uses it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Open the link that the demo prints."""
        self._process = process
        link = re.search(r"(http://[^/]+)/open\S+", self.wait_for("live page: "))
        assert link is not None
        self._url = link.group(1)
        self._session = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with self._session.open(link.group(), timeout=60) as answer:
            token = re.search(r'data-token="([^"]+)"', answer.read().decode())
        assert token is not None
        self._token = token.group(1)

    def wait_for(self, words: str) -> str:
        """Return the first line with these words."""
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if words in line:
                return line
        raise AssertionError("".join(lines))

    def rest(self) -> str:
        output, _ = self._process.communicate(timeout=200)
        return str(output)

    def text(self, path: str) -> str:
        with self._session.open(self._url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def step(self) -> int:
        """Return the last step of the account; 0 before the first."""
        found = re.search(r"up to step (\d+)", self.text("/demo/account"))
        return int(found.group(1)) if found else 0

    def has_done(self, step: int) -> bool:
        return self.step() >= step

    def facts(self) -> dict[str, int]:
        text = self.text("/demo/account")
        return {name: int(n) for name, n in re.findall(r'data-fact="(\w+)"[^>]*>(-?\d+)<', text)}

    def answers(self, question: dict[str, str]) -> str:
        return self._post("/demo/answers", question)

    def send(self, path: str) -> dict[str, object]:
        return dict(json.loads(self._post(path, {})))

    def _post(self, path: str, body: dict[str, str]) -> str:
        headers = {
            "authorization": f"Bearer {self._token}",
            "origin": self._url,
            "content-type": "application/json",
        }
        data = json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method="POST")
        with self._session.open(request, timeout=150) as answer:
            return str(answer.read().decode())


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def status_of(url: str, token: str = "") -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def finished(process: "subprocess.Popen[str]") -> str:
    """Return the output of a command; it must succeed."""
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    return str(output).strip()


def test_up_stays_until_it_is_told_to_stop(start: Start, tmp_path: Path) -> None:
    process = start("up", "--home", "home")
    variables = tmp_path / "home" / "assay.env"
    wait_until(variables.exists, "the services", timeout_s=300)
    seen = family(process)
    assert len(seen) >= 8
    address = re.search(r"ASSAY_REWARD_URL=(\S+)", variables.read_text())
    assert address is not None
    with urllib.request.urlopen(address.group(1) + "/ready", timeout=60) as answer:
        assert answer.status == 200
    home = tmp_path / "home"
    for secret in ("token", "keys.json", "assay.env"):
        assert stat.S_IMODE((home / secret).stat().st_mode) == 0o600, secret
    rubrics = address.group(1) + "/v1/rubrics"
    assert status_of(rubrics) == 401
    # Commands in the same folder find it.
    link = finished(start("dashboard", ASSAY_RUNS="home"))
    opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opened.open(link, timeout=60) as answer:
        assert "<title>Assay</title>" in answer.read().decode()
    made = finished(start("keys", "make", "alice", "--scope", "reward:read", ASSAY_RUNS="home"))
    wait_until(lambda: status_of(rubrics, made) == 200, "the key to be known", timeout_s=10)
    finished(start("keys", "revoke", "alice", ASSAY_RUNS="home"))
    wait_until(lambda: status_of(rubrics, made) == 401, "the key to be gone", timeout_s=10)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    assert output.rstrip().endswith("stopped")
    assert f"token      {(home / 'token').read_text().strip()}" in output
    assert not variables.exists()
    assert [p for p in seen if alive(p)] == []
