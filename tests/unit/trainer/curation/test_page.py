"""The page of a set: well formed, on its own, and harmless whatever a row says."""

import base64
from html.parser import HTMLParser
from pathlib import Path

import pytest

from assay_shared.errors import Conflict
from assay_trainer.curation.page import lines_of, refuse_other_file, write_page
from assay_trainer.curation.survey import survey
from tests.support.trainer_imports import imported, write_rows

VOID = {"meta", "img", "br", "link"}
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2Jgone\u202edecoded"


class Tree(HTMLParser):
    """Checks that each tag is closed in order, and gathers tags, attributes and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(path: Path) -> Tree:
    """Return a page as its tree."""
    tree = Tree()
    tree.feed(path.read_text(encoding="utf-8"))
    tree.close()
    assert tree.open == []
    return tree


def test_the_page_of_pairs_needs_no_other_file(data_folder: Path, tmp_path: Path) -> None:
    path = data_folder / "preference" / "ultrafeedback_train_1000.jsonl.gz"
    imported("preference", path, tmp_path / "out")
    found = survey(
        tmp_path / "out", 10, 0, lambda messages, answer: (len(messages[0]["content"]), len(answer))
    )
    write_page(found, 2000, tmp_path / "page.html")
    tree = parsed(tmp_path / "page.html")
    pictures = [attrs["src"] or "" for tag, attrs in tree.tags if tag == "img"]
    assert len(pictures) == 4
    for one in pictures:
        assert base64.b64decode(one.partition(",")[2]).startswith(b"\x89PNG")
    assert not [attrs for _, attrs in tree.tags if "href" in attrs]
    assert sum(tag == "section" for tag, _ in tree.tags) == 10
    for row in found.rows:
        assert row.answers["chosen"].replace("\r\n", "\n") in tree.text
        assert row.answers["rejected"].replace("\r\n", "\n") in tree.text
    assert "rejected: must differ from chosen" in tree.text


def test_a_hostile_row_is_text(tmp_path: Path) -> None:
    row = {
        "id": HOSTILE,
        "role": "train",
        "prompt": HOSTILE,
        "gold": HOSTILE,
        "tags": {"family": HOSTILE},
    }
    found = survey(write_rows(tmp_path / "a.jsonl", [row]), 1, 0)
    write_page(found, None, tmp_path / "page.html")
    tree = parsed(tmp_path / "page.html")
    assert not [tag for tag, _ in tree.tags if tag == "script"]
    assert not [attrs for _, attrs in tree.tags if "onerror" in attrs]
    assert "</pre><script>alert(1)</script>" in tree.text
    assert "\x1b" not in tree.text
    assert "\u202e" not in tree.text
    shown = "\n".join(lines_of(found, None))
    assert "alert(1)" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_page_replaces_a_page_and_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    refuse_other_file(path)
    path.write_text("<!doctype html>\n<p>old")
    refuse_other_file(path)
    path.write_text('{"id": "a row"}')
    for other in (path, tmp_path, Path("/dev/full")):
        with pytest.raises(Conflict, match="is not a page of HTML"):
            refuse_other_file(other)
