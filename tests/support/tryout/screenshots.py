"""Takes the pictures of docs/try.md.

`python -m tests.support.tryout.screenshots PAGE` opens a page that `assay try` wrote, and writes
docs/images/try*.png.
"""

import sys
from pathlib import Path

from tests.support.browser.chromium import started_chromium

IMAGES = Path(__file__).parents[3] / "docs" / "images"
_VIEWS = {
    "try": ("light", 1080, 1060, ""),
    "try-answers": ("dark", 1080, 640, "#v-g1"),
}


def main(page_file: Path, folder: Path = IMAGES) -> None:
    """Write the pictures into a folder."""
    with started_chromium() as browser:
        for name, (scheme, width, height, anchor) in _VIEWS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type]
            )
            page = context.new_page()
            page.goto(page_file.resolve().as_uri() + anchor)
            page.screenshot(path=folder / f"{name}.png")
            context.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
