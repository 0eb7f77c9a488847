"""The demo: start everything, run once through the trainer service, stop everything."""

import asyncio
import time
from pathlib import Path

from rich.console import Console

from assay_shared.clients import TrainerClient
from assay_shared.clients.trainer import RunRequest
from assay_shared.errors import InternalFault
from assay_shared.local.launcher import Launcher, running_services
from assay_trainer.config import RunConfig
from assay_trainer.service.terminal import RunView

_WATCH_EVERY_S = 0.5


def run_demo(config: RunConfig, home: Path, num_workers: int, console: Console) -> Path:
    """Run the demo and show its progress; return the report's path.

    Raises:
        InternalFault: the run failed; says why.
        MeshFailed: a service does not stay up.
    """
    started = time.monotonic()
    console.print(
        f"starting Valkey, five services and {num_workers} rollout workers in {home}",
        highlight=False,
        soft_wrap=True,
    )
    with running_services(home, num_workers=num_workers) as mesh, RunView(console) as view:
        asyncio.run(_follow(mesh, config, view))
    if view.end is None or view.end.report is None:
        reason = view.end.message if view.end else "its process died"
        raise InternalFault(f"the run did not finish: {reason}", hint=f"logs are in {mesh.logs}")
    console.print(view.summary())
    console.print(f"took {time.monotonic() - started:.0f} s; no process is left")
    return Path(view.end.report)


async def _follow(mesh: Launcher, config: RunConfig, view: RunView) -> None:
    """Start the run and show its events until it ends, watching the mesh meanwhile."""
    async with TrainerClient(mesh.urls["trainer"]) as trainer:
        await trainer.start(RunRequest(name=config.name, config=config.model_dump(mode="json")))
        watching = asyncio.create_task(_watch(mesh))
        showing = asyncio.create_task(_show(trainer, config.name, view))
        done, _ = await asyncio.wait({watching, showing}, return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, showing):
            task.cancel()
        for task in done:
            task.result()


async def _watch(mesh: Launcher) -> None:
    while True:
        mesh.watch()
        await asyncio.sleep(_WATCH_EVERY_S)


async def _show(trainer: TrainerClient, name: str, view: RunView) -> None:
    async for event in trainer.events(name):
        view.show(event)
