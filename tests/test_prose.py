"""Plain English in docstrings, comments, messages and pages, by count.

A package has at most 3.0 relative words per 100 words of its docstrings, and no banned phrase;
`tests/support/prose.py` lists both. The same holds for tests, examples, benches and deploy files.
A function's docstring in a package begins with a verb.
Delete this test once the habit holds.
"""

from pathlib import Path

import pytest

from tests.support.prose import (
    LIMIT,
    banned_in_page,
    count_python,
    python_files,
    without_a_verb,
)

ROOT = Path(__file__).parents[1]
FOLDERS = ("shared", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("services/*")))
OTHER_FOLDERS = ("bench", "deploy", "docs", "examples", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.md")])
MAX_PAGE_WORDS = 2500
#: A reader looks up a row or a section of these pages, and reads none of them through.
LOOKED_UP, MAX_LOOKED_UP_WORDS = {"metrics.md", "runbook.md"}, 4000
#: What a model reads, word for word.
PROMPTS = {"code_repair.py"}


@pytest.mark.parametrize("folder", [*FOLDERS, *OTHER_FOLDERS])
def test_prose_is_plain(folder: str) -> None:
    counts = count_python([f for f in python_files(ROOT / folder) if f.name not in PROMPTS])
    assert counts.relative_per_100 <= LIMIT
    assert not counts.banned, "\n".join(counts.banned)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_of_a_function_begins_with_a_verb(folder: str) -> None:
    assert without_a_verb(python_files(ROOT / folder)) == []


def test_a_docstring_without_a_verb_is_found(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(
        'def row():\n    """For JSON."""\n\n\ndef size():\n    """Return the size."""\n'
        'class One:\n    @property\n    def text(self):\n        """The text."""\n'
    )
    assert without_a_verb([file]) == [f"{file}:1: For JSON."]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_plain_and_short(page: Path) -> None:
    assert banned_in_page(page) == []
    most = MAX_LOOKED_UP_WORDS if page.name in LOOKED_UP else MAX_PAGE_WORDS
    assert len(page.read_text().split()) <= most
