"""The navigation of the documentation site has every page once, and its names exist."""

import subprocess
from collections import Counter
from pathlib import Path

from docs.site.links import Links
from docs.site.navigation import read_navigation

ROOT = Path(__file__).parent.parent
OUTSIDE = ("README.md", "CONTRIBUTING.md", "examples/README.md")


def test_every_page_is_in_the_navigation_once() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "docs/*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    pages = Counter(read_navigation().pages())
    assert pages == Counter([*listed.stdout.split(), *OUTSIDE])


def test_every_name_in_the_navigation_is_a_file() -> None:
    assert [page for page in read_navigation().pages() if not (ROOT / page).is_file()] == []


def test_links_lead_to_the_site_s_pages_and_to_pages_of_files() -> None:
    links = Links(("README.md", "docs/a.md", "docs/tutorials/b.md"), "README.md")
    text = "[a](../a.md#top) [home](../../README.md) [file](../../configs/judge.yaml) `[x](y.md)`"
    assert links.rewrite(text, "docs/tutorials/b.md") == (
        "[a](../a.md#top) [home](../index.md) [file](../files/configs/judge.yaml.md) `[x](y.md)`"
    )
    assert links.files == {"configs/judge.yaml"}


def test_code_blocks_keep_their_text() -> None:
    links = Links(("README.md", "docs/a.md"), "README.md")
    text = "```python\nfound = names[0](value)\n```\n"
    assert links.rewrite(text, "docs/a.md") == text
