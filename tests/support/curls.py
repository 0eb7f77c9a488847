"""The curl calls in the services' pages."""

import re
import shlex
from pathlib import Path

from assay_shared.local.listeners import USUAL_PORTS

DOCS = Path(__file__).parents[2] / "docs"


def examples() -> list[tuple[str, str, str]]:
    """Service, path and body of every curl call with a body in the pages."""
    found = []
    for page in sorted(DOCS.glob("*.md")):
        for block in re.findall(r"```bash\n(curl .*?)```", page.read_text(), re.DOTALL):
            words = shlex.split(block)
            if "-d" not in words:
                continue
            port, path = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\S+)", words[1]).groups()  # type: ignore[union-attr]
            assert words[2:4] == ["-H", "content-type: application/json"]
            assert words[4] == "-d"
            service = next(name for name, usual in USUAL_PORTS.items() if usual == int(port))
            assert page.stem.startswith(service) or page.stem == "verifiers"
            found.append((service, path, words[5]))
    return found
