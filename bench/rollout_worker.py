"""Measures a rollout worker against an inference and a reward service that answer at once.

    python -m bench.rollout_worker --output bench/results/rollout_worker.json

A real worker process, a real Valkey, and the trainer's dispatcher. Each group has 8 answers of 256
tokens, as 512 x 256 tokens a step. With a delay, the inference double answers that much later: the
groups a second then show how many groups the worker keeps in flight. The measured groups are
spread over steps of 64 groups; a step is sent when the step before it is back.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import redis

from assay_shared.runs.queue import make_celery
from assay_shared.runtime.processes import end, spawn
from assay_shared.types import (
    GenerateResponse,
    Group,
    GroupRequest,
    Rollout,
    SamplingParams,
    ScoredGroup,
    ScoreResponse,
)
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.store import GroupStore
from tests.support.fakes import make_completion, make_rewards, make_task
from tests.support.valkey import TestValkey

_GROUPS, _SAMPLES, _TOKENS = 64, 8, 256


def replies() -> tuple[str, str]:
    """Return the bodies of a generation and of a score."""
    changes = {"token_ids": (50_000,) * _TOKENS, "logprobs": (-0.123456,) * _TOKENS}
    completion = make_completion("word " * _TOKENS).model_copy(update=changes)
    drawn = GenerateResponse(prompt_token_ids=(7,) * 64, completions=(completion,) * _SAMPLES)
    rewards = make_rewards(*(float(index % 2) for index in range(_SAMPLES)))
    return drawn.model_dump_json(), ScoreResponse(rewards=rewards, scorer="b@0").model_dump_json()


@contextmanager
def double(folder: Path, name: str, body: str, delay_ms: float) -> Iterator[str]:
    """Run an endpoint with one answer; yield its address."""
    (folder / f"{name}.json").write_text(body)
    command = [sys.executable, "bench/instant_upstream.py", "--delay-ms", str(delay_ms)]
    command += ["--reply", str(folder / f"{name}.json")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http\S+", process.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        end([process], 5)  # type: ignore[list-item]  # its text mode does not matter


def play(url: str, run: str, num_steps: int) -> float:
    """Play steps of groups as a trainer does; return the seconds they took."""
    store = GroupStore(url)
    rollouts = RolloutDispatcher(make_celery(url), store, timeout_s=120, attempts=1)
    sampling = SamplingParams(n=_SAMPLES, max_tokens=_TOKENS)
    began = time.monotonic()
    for step in range(num_steps):
        for index in range(_GROUPS):
            key = f"{run}/{step}/{index}"
            rollouts.send(GroupRequest(key=key, run=run, task=make_task(key), sampling=sampling))
        while rollouts.num_in_flight:
            failed = [one.failure for one in rollouts.collect(1.0) if one.failure is not None]
            assert not failed, failed
    took_s = time.monotonic() - began
    store.close()
    return took_s


def cpu_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def used_bytes(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.info("memory")["used_memory"])


def redis_after(num_steps: int) -> list[dict[str, Any]]:
    """Return Redis's bytes after each tenth of the steps, with all groups stored, read and used."""
    drawn, scored = replies()
    group = Group(
        key="",
        task=make_task("t"),
        prompt_token_ids=(7,) * 64,
        rollouts=tuple(
            map(Rollout.of, GenerateResponse.model_validate_json(drawn).completions),
        ),
    )
    rewards = ScoreResponse.model_validate_json(scored).rewards
    valkey, rows = TestValkey(), []
    store = GroupStore(valkey.url)
    for step in range(1, num_steps + 1):
        keys = [f"run/{step}/{index}" for index in range(_GROUPS)]
        for key in keys:
            whole = group.model_copy(update={"key": key})
            store.put_once(ScoredGroup(group=whole, rewards=rewards, worker="w"))
        most = used_bytes(valkey.url)
        assert len(store.fetch(keys)) == _GROUPS
        for key in keys:
            store.consumed(key)
        if step % max(1, num_steps // 10) == 0:
            rows.append({"step": step, "before": most, "after": used_bytes(valkey.url)})
            print(json.dumps(rows[-1]), flush=True)
    store.close()
    valkey.stop()
    return rows


def measure(concurrency: int | None, delay_ms: float, num_steps: int) -> dict[str, Any]:
    """Return the facts of one worker with this number of slots; None is its own default."""
    drawn, scored = replies()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        valkey = TestValkey()
        stack.callback(valkey.stop)
        inference = stack.enter_context(double(folder, "inference", drawn, delay_ms))
        reward = stack.enter_context(double(folder, "reward", scored, 0.0))
        environment = os.environ | {
            "ASSAY_REDIS_URL": valkey.url,
            "ASSAY_INFERENCE_URL": inference,
            "ASSAY_REWARD_URL": reward,
        }
        slots = [] if concurrency is None else ["--concurrency", str(concurrency)]
        command = (sys.executable, "-m", "assay_shared.cli", "worker", *slots)
        worker = spawn(command, log=folder / "worker.log", environment=environment)
        stack.callback(lambda: end([worker], 10))
        play(valkey.url, "warm", 2)
        process, before = psutil.Process(worker.pid), used_bytes(valkey.url)
        began = cpu_s(process)
        took_s = play(valkey.url, "run", num_steps)
        num_groups = num_steps * _GROUPS
        return {
            "slots": concurrency or "default",
            "inference_ms": delay_ms,
            "groups": num_groups,
            "groups_per_s": round(num_groups / took_s, 1),
            "worker_cpu_ms_per_group": round(1000 * (cpu_s(process) - began) / num_groups, 2),
            "worker_mib": round(process.memory_info().rss / 2**20, 1),
            "redis_bytes_per_group": round((used_bytes(valkey.url) - before) / num_groups),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slots", type=int, help="the worker's own default without it")
    parser.add_argument("--delay-ms", type=float, nargs="+", default=[0.0, 2000.0])
    parser.add_argument("--steps", type=int, default=10, help="of 64 groups")
    parser.add_argument("--redis-steps", type=int, help="measure Redis's memory alone")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    rows = [] if asked.redis_steps is None else redis_after(asked.redis_steps)
    if rows:
        asked.delay_ms = []
    for delay_ms in asked.delay_ms:
        num_steps = asked.steps if delay_ms == 0 else max(2, asked.steps // 5)
        rows.append(measure(asked.slots, delay_ms, num_steps))
        print(json.dumps(rows[-1]), flush=True)
    if asked.output:
        asked.output.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
