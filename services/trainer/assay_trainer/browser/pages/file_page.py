"""A run as one HTML file: the same templates as the service's pages, without a network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, zip_longest
from typing import Any

from markupsafe import Markup

from assay_shared.errors import DatasetError, NotFound
from assay_shared.service.browsers import content_policy
from assay_trainer.browser.facts.evaluated import (
    EvaluationReader,
    PairedEvaluations,
    turned_task,
)
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
#: Groups that cannot be read, each with its reason.
_MOST_NAMED = 20
#: Of the room that the run's page leaves, for tasks whose first answer turned.
_FLIPPED_SHARE = 0.25
_MOST_FLIPPED = 1000
#: For numbers that grow with the samples, and for links that are longer than a first guess.
_SPARE_BYTES, _SPARE_BYTES_EACH = 2048, 16
#: Groups that are too large for the room left, before no more are tried.
_MOST_MISSES = 100


@dataclass(frozen=True)
class FilePage:
    """A whole file, and the number of samples in it."""

    html: str
    num_samples: int


@dataclass
class _Article:
    """A sample or a turned task of the file, with the places of its neighbours."""

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

    @property
    def places(self) -> dict[tuple[str, str, int], str]:
        """The places of the group's samples in the file."""
        cells = zip(self.row.samples, self.articles, strict=True)
        return {(self.row.at, self.row.key, cell.place): one.anchor for cell, one in cells}


def file_page(opened: OpenedRun, max_bytes: int) -> FilePage:
    """Return a run as one file of at most `max_bytes`; its lines are indexed already.

    Groups are spread evenly over the run's steps, as many as there is room for.
    """
    return _FileMaker(opened, max_bytes).page()


class _FileMaker:
    """Chooses what a file has room for. Everything is measured as it will stand in the file."""

    def __init__(self, opened: OpenedRun, max_bytes: int) -> None:
        self._opened = opened
        self._max_bytes = max_bytes
        self._templates = PageTemplates(_MOST_CHARACTERS)
        self._paired = EvaluationReader().of_run(opened.folder)
        self._fixed = self._fixed_values()
        self._places = FilePlaces()
        self._unreadable: list[str] = []

    def page(self) -> FilePage:
        """Return the file."""
        left = self._max_bytes - len(self._render([], []).encode()) - _SPARE_BYTES
        flipped = self._flipped(int(left * _FLIPPED_SHARE))
        left = self._max_bytes - len(self._render(flipped, []).encode()) - _SPARE_BYTES
        shown = self._shown(left)
        html = self._render(flipped, shown)
        while len(html.encode()) > self._max_bytes and shown:
            shown.pop()  # a guess was too low
            html = self._render(flipped, shown)
        return FilePage(html, sum(len(group.articles) for group in shown))

    def _fixed_values(self) -> dict[str, Any]:
        opened = self._opened
        content, _ = read_config(opened.folder)
        moving, at_rest = meters(opened.events)
        policy = content_policy(self._templates.inline).replace("; frame-ancestors 'none'", "")
        return {
            "policy": policy,
            "run": opened.summary(),
            "all_curves": curves(opened.events),
            "moving": moving,
            "at_rest": at_rest,
            "settings": list(flat_config(content))[:2000],
            "given": SampleFilter(),
            "paired": self._paired,
            "num_flips": _num_flips(self._paired),
        }

    def _render(self, flipped: Sequence[_Article], shown: Sequence[_ShownGroup]) -> str:
        groups = sorted(shown, key=lambda group: (group.row.step, group.row.id))
        articles = [article for group in groups for article in group.articles]
        self._places.shown = {at: one for group in groups for at, one in group.places.items()}
        return self._templates.render(
            "file",
            **self._fixed,
            places=self._places,
            flipped=_linked(flipped),
            rows=[group.row for group in groups],
            articles=_linked(articles),
            num_samples=len(articles),
            unreadable=self._unreadable[:_MOST_NAMED],
        )

    def _flipped(self, room: int) -> list[_Article]:
        """Return turned tasks as far as there is room, right and wrong ones in turn."""
        found: list[_Article] = []
        for number, (set_name, task_id) in enumerate(_flips(self._paired)):
            try:
                turned = turned_task(self._paired, set_name, task_id)
            except NotFound:
                continue
            html = self._templates.render("flipped", turned=turned)
            one = _Article(f"t{number}", f"{task_id}, before and after", Markup(html))
            room -= len(html.encode()) + 4 * len(one.label.encode()) + 400
            if room < 0 or number >= _MOST_FLIPPED:
                break
            found.append(one)
            self._places.flipped[set_name, task_id] = one.anchor
        return found

    def _shown(self, left: int) -> list[_ShownGroup]:
        """Return groups spread evenly over the run, as far as there is room."""
        _, config = read_config(self._opened.folder)
        known = StoredAdvantages(self._opened.index, config)
        found: list[_ShownGroup] = []
        misses = 0
        for group_id in _spread(self._opened.index.all_ids()):
            try:
                group = self._group(known, group_id)
            except (DatasetError, NotFound) as error:
                self._unreadable.append(str(error)[:300])
                left -= 4 * 300 if len(self._unreadable) <= _MOST_NAMED else 0
                continue
            size = self._size(group)
            if size <= left:
                found.append(group)
                left -= size
                continue
            misses += 1
            if misses >= _MOST_MISSES:
                break
        return found

    def _size(self, group: _ShownGroup) -> int:
        """Return the bytes of a group, with links as long as those to other samples."""
        linked = [replace(one, before=one.anchor, after=one.anchor) for one in group.articles]
        html = self._templates.render(
            "framed_group",
            rows=[group.row],
            places=FilePlaces(shown=group.places),
            given=SampleFilter(),
            articles=linked,
        )
        return len(html.encode()) + _SPARE_BYTES_EACH * len(linked)

    def _group(self, known: StoredAdvantages, group_id: int) -> _ShownGroup:
        """Return a group with its samples.

        Raises:
            NotFound: its file is gone.
            DatasetError: its line is damaged.
        """
        details = group_details(self._opened.index, known, group_id)
        row = self._opened.index.row(group_id)
        return _ShownGroup(row, [self._article(row, one) for one in details])

    def _article(self, row: GroupRow, one: SampleDetail) -> _Article:
        folder = self._opened.folder.path
        tokens, why_none = (
            token_pieces(folder, one.rollout, _MOST_TOKENS) if one.rollout else ([], "")
        )
        html = self._templates.render(
            "article", one=one, tokens=tokens, why_no_tokens=why_none, num_tokens=_MOST_TOKENS
        )
        label = f"step {row.step}, {row.task}, sample {one.place}"
        return _Article(f"g{row.id}-{one.place + 1}", label, Markup(html))  # escaped already


def _linked(articles: Sequence[_Article]) -> Sequence[_Article]:
    """Return the articles, each with the places of its neighbours."""
    for one in articles:
        one.before = one.after = ""
    for first, second in pairwise(articles):
        first.after, second.before = second.anchor, first.anchor
    return articles


def _flips(paired: PairedEvaluations) -> Iterator[tuple[str, str]]:
    """Yield set and id of the turned tasks: a wrong one, a right one, and so on."""
    for one in paired.data.flips if paired.data is not None else ():
        pairs = zip_longest(one.wrong_ids, one.right_ids)
        yield from ((one.set, id_) for id_ in chain.from_iterable(pairs) if id_ is not None)


def _num_flips(paired: PairedEvaluations) -> int:
    flips = paired.data.flips if paired.data is not None else ()
    return sum(one.turned_right + one.turned_wrong for one in flips)


def _spread(ids: list[int]) -> Iterator[int]:
    """Yield all ids in an order whose beginnings are spread evenly over them."""
    bits = max(1, (len(ids) - 1).bit_length())
    for number in range(2**bits):
        place = int(f"{number:0{bits}b}"[::-1], 2)
        if place < len(ids):
            yield ids[place]
