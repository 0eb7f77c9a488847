"""Compose files, as the real Compose binary reads them; no engine is needed."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import compose

ROOT = Path(__file__).parents[3]
SECRETS = {"ASSAY_TOKEN": "t" * 32, "ASSAY_REDIS_PASSWORD": "p" * 32}
PROFILES = ("cpu", "gpu", "observability", "pipeline", "executor", "judge-model")
#: The binary itself: the script before it loses the exit status.
_COMPOSE = Path(compose.__path__[0]) / "docker-compose"
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0}


def rendered(
    *arguments: str, environment: dict[str, str] | None = None, check: bool = True
) -> "subprocess.CompletedProcess[str]":
    """Run `config` with these options and variables, and no other variable of ours."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "COMPOSE_"))}
    done = subprocess.run(
        [str(_COMPOSE), "--env-file", "/dev/null", *arguments, "config", "--format", "json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=variables | (SECRETS if environment is None else environment),
        timeout=60,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def config(*arguments: str, **environment: str) -> dict[str, Any]:
    """Return the project with these options and variables, besides the secrets."""
    return dict(json.loads(rendered(*arguments, environment=SECRETS | environment).stdout))


def profile(*names: str) -> list[str]:
    """Return the options that choose these profiles."""
    return [word for name in names for word in ("--profile", name)]


@functools.cache
def _everything() -> str:
    return json.dumps(config(*profile(*PROFILES)))


def everything() -> dict[str, Any]:
    """Return the project with all services of all profiles; the caller may change it."""
    return dict(json.loads(_everything()))


def seconds(duration: str) -> float:
    """Return a duration of Compose, such as 3m5s, in seconds."""
    parts = re.findall(r"([0-9.]+)([hms])", duration)
    assert "".join(number + unit for number, unit in parts) == duration, duration
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
