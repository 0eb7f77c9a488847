"""Compared answers in HTML: escaped, linked, with every number."""

from html.parser import HTMLParser

from assay_shared.verdicts.compared import ComparedAnswer, ComparedGroup, GivenReward, Nature
from assay_shared.verdicts.fragment import verdict_overview, verdict_style, verdict_tables
from tests.contract.test_pages import HOSTILE


class Tags(HTMLParser):
    """Collects the names of tags, the ids and the targets of links."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.targets += [given["href"] or ""] if "href" in given else []


def hostile_group() -> ComparedGroup:
    failed = GivenReward(None, HOSTILE, HOSTILE)
    paid = GivenReward(1.0, HOSTILE, HOSTILE)
    answers = (
        ComparedAnswer(HOSTILE + "x" * 10_000, failed, GivenReward(0.0, "exception"), note=HOSTILE),
        ComparedAnswer("b", paid, paid, Nature.CHEAT, HOSTILE, (failed,)),
        ComparedAnswer("c", paid, GivenReward(0.0, "u"), Nature.RIGHT),
    )
    return ComparedGroup(HOSTILE, HOSTILE, answers, HOSTILE, HOSTILE)


def test_everything_from_outside_is_escaped_and_bounded() -> None:
    html = verdict_tables([hostile_group()]) + verdict_overview([hostile_group()])
    tags = Tags()
    tags.feed(html)
    assert not {"script", "img"} & set(tags.names)
    for hidden in "\u202e\x00\x1b\u200b":
        assert hidden not in html
    assert "more characters" in html
    assert len(html) < 30_000


def test_links_of_the_overview_lead_to_rows() -> None:
    groups = [hostile_group(), hostile_group()]
    tags = Tags()
    tags.feed(verdict_tables(groups) + verdict_overview(groups))
    assert len(tags.ids) == len(set(tags.ids))
    assert tags.targets
    assert {target.removeprefix("#") for target in tags.targets} <= set(tags.ids)


def test_a_missing_reward_is_no_zero() -> None:
    html = verdict_tables([hostile_group()])
    assert ">no reward<" in html
    assert ">none<" in html, "it has no advantage"
    assert "a failure was read as 0" in html


def test_the_style_begins_each_class_alike() -> None:
    selectors = [line.partition("{")[0] for line in verdict_style().splitlines()]
    classes = [word for one in selectors for word in one.split() if word.startswith(".")]
    assert classes
    assert all(word.startswith((".v-", ".verdicts")) for word in classes)
