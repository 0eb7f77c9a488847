"""Pages of HTML that need no other file: their templates, and pictures inside of them."""

import base64
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from assay_shared.text.markdown import visible


def templates_in(*folders: Path) -> Environment:
    """Return the templates of folders; those of HTML escape what they are given."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    return environment


def picture_url(png: bytes) -> str:
    """Return a picture as a data URL."""
    return "data:image/png;base64," + base64.b64encode(png).decode()
