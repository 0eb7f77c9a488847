"""Prints a run's state as five words, from inside the trainer's pod.

They are: state, last step, steps done again, groups trained on twice, steps that are missing.
`python - NAME` shows the run; a further word starts, resumes or stops it before.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

#: More than a trial takes, which stops the run in the end.
_NUM_STEPS = 2000
_CONFIG = {
    "name": "",
    "seed": 1,
    "policy": {
        "new": {
            "vocabulary_size": 512,
            "hidden_size": 64,
            "intermediate_size": 192,
            "num_layers": 2,
            "num_heads": 2,
            "context_length": 256,
        }
    },
    "data": {
        "train": {"kind": "generated", "num_tasks": 200},
        "held_out": {"kind": "generated", "num_tasks": 12},
    },
    "sft": {"steps": 60, "batch_size": 16},
    "grpo": {
        "steps": _NUM_STEPS,
        "groups_per_step": 4,
        "group_size": 4,
        "max_tokens": 64,
        "checkpoint_every": 2,
    },
    "evaluation": {"samples_per_task": 1, "k": [1], "max_tokens": 32},
}


def ask(path: str, body: object = None, *, method: str = "GET") -> dict[str, Any]:
    """Return the trainer's answer to a request."""
    request = urllib.request.Request(
        f"http://localhost:8005{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "authorization": f"Bearer {os.environ['ASSAY_TRAINER_TOKEN']}",
            "content-type": "application/json",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=15) as answer:
        return dict(json.load(answer))


def lines(path: Path) -> list[dict[str, Any]]:
    """Return a file's whole lines: the last may be half written."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def main(name: str, action: str = "show") -> None:
    """Do the action, and print the state after it."""
    if action == "start":
        ask("/v1/runs", {"name": name, "config": _CONFIG | {"name": name}}, method="POST")
    elif action in ("resume", "stop"):
        ask(f"/v1/runs/{name}/{action}", method="POST")
    state = ask(f"/v1/runs/{name}")["status"].get("state", "unknown")
    folder = Path(os.environ["ASSAY_RUNS"]) / name
    events = [event for event in lines(folder / "events.jsonl") if event["kind"] == "step"]
    steps = [event["data"]["step"] for event in events]
    groups = [one for one in lines(folder / "rollouts.jsonl") if not one["superseded"]]
    keys = [one["group"]["key"] for one in groups]
    missing = set(range(1, max(steps, default=0) + 1)) - set(steps)
    counts = (
        max(steps, default=0),
        len(steps) - len(set(steps)),
        len(keys) - len(set(keys)),
        len(missing),
    )
    sys.stdout.write(" ".join(map(str, (state, *counts))) + "\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.code}: {error.read().decode()[:500]}")
