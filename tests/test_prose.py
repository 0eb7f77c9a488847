"""Plain English in docstrings, comments, messages and pages, by count.

A package has at most 3.0 relative words per 100 words of its docstrings, and no banned phrase;
`tests/support/prose.py` lists both. Delete this test once the habit holds.
"""

from pathlib import Path

import pytest

from tests.support.prose import LIMIT, banned_in_page, count_python, python_files

ROOT = Path(__file__).parents[1]
PACKAGES = ("judge", "reward", "sandbox", "inference", "trainer")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*.md")])
MAX_PAGE_WORDS = 2500
#: What a model reads, word for word.
PROMPTS = {"code_repair.py"}


@pytest.mark.parametrize("package", ["shared", *PACKAGES])
def test_prose_is_plain(package: str) -> None:
    folder = ROOT / "shared" if package == "shared" else ROOT / "services" / package
    counts = count_python([f for f in python_files(folder) if f.name not in PROMPTS])
    assert counts.relative_per_100 <= LIMIT
    assert not counts.banned, "\n".join(counts.banned)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_plain_and_short(page: Path) -> None:
    assert banned_in_page(page) == []
    assert len(page.read_text().split()) <= MAX_PAGE_WORDS
