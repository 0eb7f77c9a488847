"""A demo from its start to its end: services, a run, the page, and the time after the run."""

import asyncio
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from assay_shared.clients import TrainerClient
from assay_shared.clients.trainer import RunRequest
from assay_shared.errors import InternalFault
from assay_shared.local.launcher import Launcher, running_services
from assay_trainer.config import RunConfig
from assay_trainer.service.demo.api.serving import ServedPage, served_page
from assay_trainer.service.demo.desktop import open_in_browser
from assay_trainer.service.terminal import RunView

_WATCH_EVERY_S = 0.5


@dataclass(frozen=True)
class DemoOptions:
    """How a demo runs: its workers, whether it stays after the run, and opens a browser."""

    num_workers: int
    stays: bool = False
    opens: bool = False


def run_demo(config: RunConfig, home: Path, options: DemoOptions, console: Console) -> None:
    """Run the demo and show its progress, its page and its report.

    Raises:
        InternalFault: the run failed; says why.
        MeshFailed: a service does not stay up.
    """
    started = time.monotonic()
    _tell(
        console,
        f"starting Valkey, five services and {options.num_workers} rollout workers in {home}",
    )
    with (
        running_services(home, num_workers=options.num_workers) as mesh,
        served_page(mesh, config) as page,
    ):
        _tell(console, f"live page: {page.link()}  (opens once, on this machine alone)")
        if options.opens:
            open_in_browser(page.link())
        with RunView(console) as view:
            asyncio.run(_follow(mesh, config, view))
        if view.end is None or view.end.report is None:
            reason = view.end.message if view.end else "its process died"
            raise InternalFault(
                f"the run did not finish: {reason}", hint=f"logs are in {mesh.logs}"
            )
        console.print(view.summary())
        console.print(f"took {time.monotonic() - started:.0f} s")
        if options.stays:
            _stay(mesh, page, console)
    console.print("no process is left")
    _tell(console, f"report: {view.end.report}")


def _tell(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _stay(mesh: Launcher, page: ServedPage, console: Console) -> None:
    """Keep the services up until Ctrl-C or SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    _tell(console, f"ask the policy before and after: {page.link()}  (opens once)")
    _tell(console, "Ctrl-C ends the demo")
    try:
        while True:
            mesh.watch()
            time.sleep(_WATCH_EVERY_S)
    except KeyboardInterrupt:
        return


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
