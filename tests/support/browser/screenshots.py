"""Takes the pictures of docs/browser.md from a real run.

`python -m tests.support.browser.screenshots RUNS NAME` serves the folder RUNS and writes
docs/images/browser-*.png of the run NAME. With another name, it writes browser-compare.png of both.
"""

import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from assay_trainer.service.app import create_app
from assay_trainer.settings import TrainerSettings
from tests.support.browser.chromium import started_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parents[3] / "docs" / "images"


def main(runs: Path, name: str, other: str = "") -> None:
    """Write the pictures."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(TrainerSettings(runs=runs))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        with started_chromium() as browser:
            _take(browser, f"http://127.0.0.1:{listener.getsockname()[1]}", name, other)
    finally:
        server.should_exit = True
        thread.join(30)


def _take(browser: "Browser", url: str, name: str, other: str) -> None:
    if other:
        page = browser.new_page(viewport={"width": 960, "height": 760})
        page.goto(f"{url}/compare?run={name}&run={other}")
        page.screenshot(path=IMAGES / "browser-compare.png")
        return
    for scheme, picture, path, cell in (
        ("light", "run", f"/runs/{name}", None),
        ("dark", "samples", f"/runs/{name}/samples?tag=domain:code", None),
        ("light", "sample", f"/runs/{name}/samples?tag=domain:code&component=pass_ratio>0.2", "l"),
    ):
        context = browser.new_context(
            viewport={"width": 960, "height": 620},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page = context.new_page()
        page.goto(url + path)
        page.wait_for_timeout(1500)  # new lines are read
        page.reload()
        if cell:
            page.locator("a.cell:not(.c-other)").first.click()
            page.wait_for_url("**/sample?*")
        page.screenshot(path=IMAGES / f"browser-{picture}.png", full_page=picture == "sample")
        context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4])
