"""Pages of files and folders outside of the pages: their text, or a list of their files."""

import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

MAX_BYTES = 100_000
_LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".toml": "toml",
    ".sh": "bash",
}
_HEADER = "---\norphan: true\nnosearch: true\n---\n\n"


def tracked_files(root: Path) -> tuple[str, ...]:
    """Return the paths of all files under version control, sorted."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True
    )
    return tuple(sorted(listed.stdout.splitlines()))


def linked_files(linked: Iterable[str], tracked: tuple[str, ...]) -> dict[str, list[str]]:
    """Return each linked path with the tracked files in it; a file has none.

    Raises:
        ValueError: a page links to a path that is not under version control.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(linked):
        inside = [name for name in tracked if name.startswith(f"{path}/")]
        if not inside and path not in tracked:
            raise ValueError(f"a page links to {path}, which is not a file under version control")
        found[path] = inside
    return found


def file_page(root: Path, path: str) -> str:
    """Return the page of one file: its text, or its size if it is long or not text."""
    content = (root / path).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or len(content) > MAX_BYTES:
        return (
            f"{_HEADER}# {path}\n\nThe file has {len(content):,} bytes; see it in the repository.\n"
        )
    fence = "`" * 12
    is_template = "/templates/" in path
    language = "text" if is_template else _LANGUAGES.get(Path(path).suffix, "text")
    return f"{_HEADER}# {path}\n\n{fence}{language}\n{text}\n{fence}\n"


def folder_page(path: str, inside: Iterable[str], linked: Collection[str]) -> str:
    """Return the page of a folder: its files, with links to those that have a page."""
    up = "../" * path.count("/")
    rows = []
    for name in inside:
        shown = name.removeprefix(f"{path}/")
        rows.append(f"- [{shown}]({up}{name}.md)" if name in linked else f"- `{shown}`")
    return f"{_HEADER}# {path}\n\n" + "\n".join(rows) + "\n"
