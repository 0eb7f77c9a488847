"""Samples as text: a table of many, or each of them whole."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from assay_shared.text.markdown import visible
from assay_trainer.browser.samples.detail import SampleDetail
from assay_trainer.browser.samples.evidence import evidence_parts

#: Characters of one text of a sample that a terminal shows.
_MOST_CHARACTERS = 20_000


def samples_table(samples: Sequence[SampleDetail]) -> Table:
    """Return a row for each sample."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), expand=True)
    table.add_column("step", no_wrap=True)
    table.add_column("task", overflow="fold", max_width=20)
    table.add_column("sample", no_wrap=True)
    table.add_column("outcome", overflow="fold", max_width=16)
    table.add_column("reward", justify="right", no_wrap=True)
    table.add_column("advantage", justify="right", no_wrap=True)
    table.add_column("failure, or the answer's beginning", overflow="fold", ratio=1)
    for one in samples:
        told = one.failure.message if one.failure else _answer(one)
        outcome = f"failed: {one.failure.failure_class}" if one.failure else one.outcome
        table.add_row(
            str(one.group.step),
            Text(visible(one.task.id)),
            str(one.place),
            Text(f"{outcome}{f' ({one.reason})' if one.reason else ''}"),
            "" if one.scored is None else f"{one.scored.value:.3g}",
            "" if one.advantage is None else f"{one.advantage:+.2f}",
            Text(visible(" ".join(told[:400].split())[:180])),
        )
    return table


def sample_lines(one: SampleDetail) -> Iterator[RenderableType]:
    """Yield everything about a sample."""
    yield Rule(Text(visible(f"step {one.group.step}, {one.task.id}, sample {one.place}")))
    yield Text(visible(f"key {one.group.group.key}"), style="dim")
    for title, text in _texts(one):
        yield Text(title, style="bold")
        yield Text(_cut(text))
    if one.scored is not None:
        yield Text(f"reward {one.scored.value:.4g}, {one.scored.outcome}", style="bold")
        for part in one.scored.components:
            yield Text(
                visible(f"  {part.name} {part.value:.4g}, weight {part.weight:g}: ")
                + _cut(part.detail)
            )
    if one.failure is not None:
        failure = one.failure
        told = (
            f"failed: {failure.failure_class} in {failure.service}, {failure.attempts} attempts: "
        )
        yield Text(visible(told) + _cut(failure.message), style="red")
    for found in evidence_parts(one):
        yield Text(visible(found.title), style="bold")
        yield Text(_cut(found.text))
    if one.reason:
        yield Text(f"not trained on: {one.reason}", style="red")
    known = "none" if one.advantage is None else f"{one.advantage:+.4f}"
    yield Text(f"advantage {known}{f' ({one.no_advantage})' if one.no_advantage else ''}")
    versions = ", ".join(f"{version} ({digest})" for version, digest in one.versions)
    yield Text(
        f"policy version {versions or 'unknown'}; scored by {visible(one.group.scorer)}; "
        f"{one.group.generate_time_s:.2f} s in inference and {one.group.score_time_s:.2f} s in "
        f"reward for the group"
    )


def _texts(one: SampleDetail) -> Iterator[tuple[str, str]]:
    for message in one.task.messages:
        yield message.role, message.content
    if one.rollout is None:
        return
    if not one.rollout.turns:
        yield f"answer ({one.rollout.finish_reason})", one.rollout.text
    for turn in one.rollout.turns:
        yield "answer", turn.text
        if turn.observation:
            yield "environment", turn.observation


def _answer(one: SampleDetail) -> str:
    answer = one.rollout.answer if one.rollout else ""
    return answer if isinstance(answer, str) else " … ".join(answer)


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return visible(text)
    left = len(text) - _MOST_CHARACTERS
    return visible(text[:_MOST_CHARACTERS]) + f"\n… {left:,} more characters: --json has them"
