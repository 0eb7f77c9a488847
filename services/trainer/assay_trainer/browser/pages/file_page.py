"""A run as one HTML file: the same templates as the service's pages, without a network."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from assay_shared.errors import DatasetError, NotFound
from assay_shared.service.browsers import content_policy
from assay_trainer.browser.facts.summary import flat_config, read_config
from assay_trainer.browser.opening import OpenedRun
from assay_trainer.browser.pages.curves import curves, meters
from assay_trainer.browser.pages.places import FilePlaces
from assay_trainer.browser.pages.rendering import PageTemplates
from assay_trainer.browser.reading.filters import SampleFilter
from assay_trainer.browser.reading.rows import GroupRow
from assay_trainer.browser.samples.advantages import StoredAdvantages
from assay_trainer.browser.samples.detail import SampleDetail, group_details
from assay_trainer.browser.samples.token_texts import token_pieces

_MOST_CHARACTERS, _MOST_TOKENS = 8000, 1000
#: Of a sample: its cell, links and frame.
_FRAME_BYTES = 750
#: Groups that cannot be read, each with its reason.
_MOST_NAMED = 20
#: For the run itself: curves, tables, configuration, style.
_RUN_BYTES = 2 * 2**20


@dataclass(frozen=True)
class FilePage:
    """A whole file, and the number of samples in it."""

    html: str
    num_samples: int


@dataclass
class _Article:
    """A sample of the file, with the places of its neighbours."""

    anchor: str
    label: str
    html: Markup
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class _ShownGroup:
    """A group of the file."""

    row: GroupRow
    articles: list[_Article]


def file_page(opened: OpenedRun, max_bytes: int) -> FilePage:
    """Return a run as one file of at most `max_bytes`; its lines are indexed already.

    Groups are spread evenly over the run's steps, as many as there is room for.
    """
    templates = PageTemplates(_MOST_CHARACTERS)
    content, config = read_config(opened.folder)
    known = StoredAdvantages(opened.index, config)
    left = max_bytes - _RUN_BYTES
    shown: list[_ShownGroup] = []
    unreadable: list[str] = []
    for group_id in _spread(opened.index.all_ids()):
        try:
            group = _group(opened, known, templates, group_id)
        except (DatasetError, NotFound) as error:
            unreadable.append(str(error)[:300])
            continue
        left -= sum(len(one.html.encode()) + _FRAME_BYTES for one in group.articles)
        if left < 0:
            break
        shown.append(group)
    shown.sort(key=lambda group: (group.row.step, group.row.id))
    articles = [article for group in shown for article in group.articles]
    for first, second in pairwise(articles):
        first.after, second.before = second.anchor, first.anchor
    places = FilePlaces()
    for group in shown:
        cells = zip(group.row.samples, group.articles, strict=True)
        places.shown |= {
            (group.row.at, group.row.key, cell.place): one.anchor for cell, one in cells
        }
    moving, at_rest = meters(opened.events)
    html = templates.render(
        "file",
        policy=content_policy(templates.inline).replace("; frame-ancestors 'none'", ""),
        run=opened.summary(),
        all_curves=curves(opened.events),
        moving=moving,
        at_rest=at_rest,
        settings=list(flat_config(content))[:2000],
        places=places,
        given=SampleFilter(),
        rows=[group.row for group in shown],
        articles=articles,
        num_samples=len(articles),
        unreadable=unreadable[:_MOST_NAMED],
    )
    return FilePage(html, len(articles))


def _group(
    opened: OpenedRun, known: StoredAdvantages, templates: PageTemplates, group_id: int
) -> _ShownGroup:
    """Return a group with its samples.

    Raises:
        NotFound: its file is gone.
        DatasetError: its line is damaged.
    """
    details = group_details(opened.index, known, group_id)
    row = opened.index.row(group_id)
    return _ShownGroup(row, [_article(opened, templates, row, one) for one in details])


def _article(
    opened: OpenedRun, templates: PageTemplates, row: GroupRow, one: SampleDetail
) -> _Article:
    tokens, why_none = (
        token_pieces(opened.folder.path, one.rollout, _MOST_TOKENS) if one.rollout else ([], "")
    )
    html = templates.render(
        "article", one=one, tokens=tokens, why_no_tokens=why_none, num_tokens=_MOST_TOKENS
    )
    label = f"step {row.step}, {row.task}, sample {one.place}"
    return _Article(f"g{row.id}-{one.place + 1}", label, Markup(html))  # escaped by its template


def _spread(ids: list[int]) -> Iterator[int]:
    """Yield all ids in an order whose beginnings are spread evenly over them."""
    bits = max(1, (len(ids) - 1).bit_length())
    for number in range(2**bits):
        place = int(f"{number:0{bits}b}"[::-1], 2)
        if place < len(ids):
            yield ids[place]
