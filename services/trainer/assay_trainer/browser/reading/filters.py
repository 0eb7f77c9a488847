"""Filters of samples: from an address or the command line to SQL."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from urllib.parse import urlencode

from assay_shared.errors import InvalidInput
from assay_shared.types import Status
from assay_shared.types.failure import FailureClass
from assay_trainer.browser.reading.parsing import FAILED, UNKNOWN_FAILURE
from assay_trainer.learner.batching.group_batch import DiscardReason

_STEPS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_PART = re.compile(
    r"(?P<name>[^<>=]{1,400}?)\s*(?:(?P<sign><=|>=|<|>|=)\s*(?P<value>-?[\d.]{1,20}))?"
)
_TAG = re.compile(r"([^:=]{1,400})[:=](.{1,400})")
_MOST_CHARACTERS = 400
_MOST_TRIGRAMS = 40
#: Values of `kept`: groups that were trained on, discarded, or replaced by a resume.
KEPT = ("", "trained", "discarded", "superseded")
_FAILURES = (*FailureClass, UNKNOWN_FAILURE)
_OUTCOMES = {*Status, FAILED, *(f"{FAILED}:{one}" for one in _FAILURES)}


@dataclass(frozen=True)
class SampleFilter:
    """Conditions on samples; an empty one holds for each sample.

    `outcome`: a sandbox status or `failed`; `failed:judge` names a failure class. `step`: 7 or 3-9.
    `tag`: name:value. `component`: a name, alone or compared with a number, such as tests<0.5.
    `reason`: why a group was discarded. `kept`: trained, discarded or superseded; without it, all
    but superseded groups.
    """

    outcome: str = ""
    task: str = ""
    tag: str = ""
    component: str = ""
    text: str = ""
    step: str = ""
    reason: str = ""
    kept: str = ""

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidInput: a value cannot be used; names the filter.
        """
        for one in fields(self):
            _check_text(getattr(self, one.name), one.name)
        steps = _STEPS.fullmatch(self.step)
        is_range = steps and int(steps[1]) <= int(steps[2] or steps[1])
        hint = "a number or a range from the smaller one: 7, 3-9"
        _refuse_unless(is_range, self.step, "step", hint)
        _refuse_unless(_TAG.fullmatch(self.tag), self.tag, "tag", "name:value")
        part = _PART.fullmatch(self.component)
        hint = "a name, alone or with a number: tests, tests<0.5"
        _refuse_unless(part, self.component, "component", hint)
        if part and part["value"]:
            _number(part["value"])
        hint = f"{', '.join([*Status, FAILED])}, or {FAILED}: with {', '.join(_FAILURES)}"
        _refuse_unless(self.outcome in _OUTCOMES, self.outcome, "outcome", hint)
        is_known = self.reason in set(DiscardReason)
        _refuse_unless(is_known, self.reason, "reason", ", ".join(DiscardReason))
        _refuse_unless(self.kept in KEPT, self.kept, "kept", ", ".join(KEPT[1:]))

    @property
    def is_empty(self) -> bool:
        return self == SampleFilter()

    def query(self, **changes: str) -> str:
        """Return the filter as an address's query, with changes and without empty values."""
        values = {one.name: getattr(self, one.name) for one in fields(self)} | changes
        return urlencode({name: value for name, value in values.items() if value})

    def sql(self) -> tuple[str, list[object]]:
        """Return a condition on the table `samples`, with its parameters."""
        conditions = ["superseded = 1" if self.kept == "superseded" else "superseded = 0"]
        values: list[object] = []
        if self.kept in ("trained", "discarded"):
            conditions.append("reason = ''" if self.kept == "trained" else "reason != ''")
        for condition, *given in self._plain():
            conditions.append(str(condition))
            values.extend(given)
        if self.component:
            self._add_component(conditions, values)
        if self.text:
            self._add_text(conditions, values)
        return " AND ".join(conditions), values

    def _plain(self) -> Iterator[tuple[object, ...]]:
        """Yield conditions on columns, each with its parameters."""
        if self.reason:
            yield "reason = ?", self.reason
        if self.outcome:
            outcome, _, failure_class = self.outcome.partition(":")
            yield "outcome = ?", outcome
            if failure_class:
                yield "failure_class = ?", failure_class
        if self.step and (found := _STEPS.fullmatch(self.step)):
            yield "step BETWEEN ? AND ?", int(found[1]), int(found[2] or found[1])
        if self.task:
            name = self.task.lower()
            yield "task_id IN (SELECT id FROM tasks WHERE instr(lower(name), ?))", name
        if self.tag and (tag := _TAG.fullmatch(self.tag)):
            same = "json_extract(tags, ?) = ?"
            path = json_path(tag[1])
            yield f"task_id IN (SELECT id FROM tasks WHERE {same})", path, tag[2]

    def _add_text(self, conditions: list[str], values: list[object]) -> None:
        """Find candidates by the text's trigrams, then compare the text itself."""
        text = self.text.lower()
        grams = [text[at : at + 3] for at in range(len(text) - 2)][:_MOST_TRIGRAMS]
        if grams:
            conditions.append("samples.id IN (SELECT rowid FROM trigrams WHERE trigrams MATCH ?)")
            values.append(" AND ".join('"' + one.replace('"', '""') + '"' for one in grams))
        conditions.append("instr((SELECT text FROM texts WHERE texts.id = samples.id), ?)")
        values.append(text)

    def _add_component(self, conditions: list[str], values: list[object]) -> None:
        part = _PART.fullmatch(self.component)
        assert part is not None
        compared = ""
        values.append(part["name"].strip())
        if part["sign"]:
            compared = f" AND value {part['sign']} ?"  # one of five signs
            values.append(_number(part["value"]))
        conditions.append(
            "EXISTS (SELECT 1 FROM parts WHERE parts.id = samples.id "
            f"AND name_id = (SELECT id FROM part_names WHERE name = ?){compared})"
        )


def json_path(name: str) -> str:
    """Return the path of a key in SQLite's JSON functions."""
    return '$."' + name.replace('"', "") + '"'


def _check_text(given: str, name: str) -> None:
    if len(given) > _MOST_CHARACTERS:
        raise InvalidInput(f"at most {_MOST_CHARACTERS} characters", field=name)
    if "\0" in given:
        raise InvalidInput("has U+0000, which no search finds", field=name, hint="leave it out")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidInput("is not UTF-8", field=name) from None


def _refuse_unless(found: object, given: str, name: str, hint: str) -> None:
    if given and not found:
        raise InvalidInput(f"{given!r:.80} cannot be used", field=name, hint=f"give {hint}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{text!r:.40} is not a number", field="component") from None
