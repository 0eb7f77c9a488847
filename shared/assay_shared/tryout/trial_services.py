"""The services of a trial: sandbox, judge and reward as processes, and the scripted model."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from assay_shared.local.launcher import Launcher, running_services
from assay_shared.settings.home import Access
from assay_shared.tryout.given import TrialGroup
from assay_shared.tryout.judging_model import NAME, JudgingModel

SERVICES = ("sandbox", "judge", "reward")
#: Time for the reward service to ask a neighbour again. Usually 30 s: a sandbox that is killed and
#: started again within that time fails no answer.
RETRY_S = 1.0


@dataclass(frozen=True)
class TrialServices:
    """Running services with the token that they ask for."""

    mesh: Launcher
    model: JudgingModel
    token: str

    def url(self, name: str) -> str:
        return self.mesh.urls[name]

    def kill_sandbox(self) -> None:
        """Kill the sandbox's process with SIGKILL; its port refuses connections."""
        self.mesh.kill_part("sandbox")

    async def start_sandbox(self) -> None:
        """Start the sandbox again if it is down, and wait until it answers."""
        if "sandbox" not in self.mesh.processes:
            self.mesh.start_part("sandbox")
        await self.mesh.wait_for("sandbox")


@contextmanager
def trial_services(
    groups: Sequence[TrialGroup], on_ready: Callable[[str, str], None]
) -> Iterator[TrialServices]:
    """Run the services within the block, at free ports, in a new folder.

    The folder is removed at the end and after Ctrl-C; after an error it stays, for its logs.
    """
    home = Path(tempfile.mkdtemp(prefix="assay-try-"))
    try:
        with _running(home, groups, on_ready) as services:
            yield services
    except KeyboardInterrupt:  # no fault, so nobody reads the logs
        shutil.rmtree(home, ignore_errors=True)
        raise
    shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _running(
    home: Path, groups: Sequence[TrialGroup], on_ready: Callable[[str, str], None]
) -> Iterator[TrialServices]:
    access = Access.of(home)
    with JudgingModel(groups) as model:
        settings = access.variables | {
            "ASSAY_JUDGE_CONFIG": str(_judge_config(home, model)),
            "ASSAY_REWARD_RETRY_BUDGET_S": str(RETRY_S),
        }
        with running_services(
            home, num_workers=0, services=SERVICES, settings=settings, on_ready=on_ready
        ) as mesh:
            yield TrialServices(mesh, model, access.token)


def _judge_config(home: Path, model: JudgingModel) -> Path:
    """Write the judge's chain, and return the file."""
    file = home / "judge.yaml"
    provider = {
        "kind": "openai",
        "name": "scripted",
        "base_url": model.url("judge"),
        "model": NAME,
        "attempts": 3,
    }
    file.write_text(yaml.safe_dump({"chain": [provider]}))
    return file
