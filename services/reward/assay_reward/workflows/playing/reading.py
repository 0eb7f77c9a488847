"""From a policy's reply to the tree of a workflow: found, parsed, repaired and checked.

A hostile reply takes up to half a second, so all of this happens in a worker process. The tree
comes back as a pickle, of which only nodes of trees are loaded.
"""

import base64
import io
import pickle
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue, TypeAdapter

from assay_reward.workflows.language import tree as nodes
from assay_reward.workflows.language.checker import CheckedWorkflow
from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.source import check_source, form_of
from assay_reward.workflows.language.tree import Workflow
from assay_reward.workflows.repair.repair import repair_source
from assay_shared.answers.extraction import fenced
from assay_shared.errors import TooHard
from assay_shared.runtime.workers import Workers
from assay_shared.text.reasoning import after_reasoning
from assay_shared.types.wire import Wire

_READ = "assay_reward.workflows.playing.reading:read_in_worker"
#: Processor time for one reply.
_CPU_S = 2.0
#: Longer replies hold no workflow: a workflow has at most 16,384 characters.
_MAX_REPLY = 2**18
_MAX_SHOWN = 500
#: Fenced blocks of a reply that are tried, from the last one.
_MAX_BLOCKS = 8


@dataclass(frozen=True)
class ReadWorkflow:
    """A reply as it was read. Without a tree it holds no valid workflow: `problems` says why."""

    source: str
    form: str
    tree: Workflow | None
    problems: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()


class _Reading(Wire):
    """A ReadWorkflow between the processes; `tree` is a pickle in base64."""

    source: str
    form: str
    tree: str | None = None
    problems: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()


_READING: TypeAdapter[_Reading] = TypeAdapter(_Reading)


async def read_reply(reply: str, *, repair: bool, workers: Workers) -> ReadWorkflow:
    """Return the workflow of a reply: its last fenced block that can be read, or
    the whole reply without a block.

    Raises:
        AssayError: the worker failed; the reply is not at fault.
    """
    if len(reply) > _MAX_REPLY:
        return _unread(f"the reply has {len(reply)} characters; at most {_MAX_REPLY} are read")
    try:
        found = await workers.call(_READ, reply, repair, cpu_s=_CPU_S)
    except TooHard:
        return _unread("the workflow takes too much time or memory to check; make it smaller")
    return _read_back(found)


def read_here(reply: str, repair: bool) -> ReadWorkflow:
    """Return the workflow of a reply, read in this process: for commands."""
    return _read_back(read_in_worker(reply, repair))


def _read_back(found: JsonValue) -> ReadWorkflow:
    reading = _READING.validate_python(found)
    tree = None if reading.tree is None else _loaded(reading.tree)
    return ReadWorkflow(reading.source, reading.form, tree, reading.problems, reading.repairs)


def read_in_worker(reply: str, repair: bool) -> JsonValue:
    """Return a `_Reading` as JSON; runs in a worker process.

    A policy may explain its workflow with a diagram or an example after it, so the last block that
    can be read counts. Without one, the problem is that of the last block.
    """
    unread: _Reading | None = None
    for source in workflow_sources(reply):
        reading, is_read = _reading_of(source, repair)
        if is_read:
            return reading.model_dump(mode="json")
        unread = unread or reading
    assert unread is not None
    return unread.model_dump(mode="json")


def _reading_of(source: str, repair: bool) -> tuple[_Reading, bool]:
    """Return a source as it was read, and whether it is a workflow, with or without problems."""
    form = form_of(source)
    try:
        repairs: tuple[str, ...] = ()
        if repair:
            repaired = repair_source(source, form)
            source, checked = repaired.source, repaired.checked
            repairs = tuple(str(one)[:_MAX_SHOWN] for one in repaired.repairs)
        else:
            checked = check_source(source, form)
    except InvalidWorkflow as error:
        problems = tuple(str(one)[:_MAX_SHOWN] for one in error.problems)
        return _Reading(source=source, form=form, problems=problems), False
    reading = _Reading(
        source=source,
        form=form,
        tree=_pickled(checked),
        problems=tuple(str(one)[:_MAX_SHOWN] for one in checked.problems),
        repairs=repairs,
    )
    return reading, bool(checked.tree.body)


def workflow_sources(reply: str) -> list[str]:
    """Return what may be the workflow of a reply: its fenced blocks, the last one first."""
    said = after_reasoning(reply)
    blocks = fenced(said, unclosed=True)
    return blocks[: -_MAX_BLOCKS - 1 : -1] or [said.strip()]


def _pickled(checked: CheckedWorkflow) -> str | None:
    if not checked.valid:
        return None
    return base64.b64encode(pickle.dumps(checked.tree)).decode()


class _NodeUnpickler(pickle.Unpickler):
    """Loads nodes of trees and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        found = getattr(nodes, name, None) if module == nodes.__name__ else None
        if not isinstance(found, type) or not issubclass(found, nodes.Node | nodes.Position):
            raise pickle.UnpicklingError(f"{module}.{name} is not a part of a tree")
        return found


def _loaded(text: str) -> Workflow:
    found = _NodeUnpickler(io.BytesIO(base64.b64decode(text))).load()
    assert isinstance(found, Workflow)
    return found


def _unread(problem: str) -> ReadWorkflow:
    return ReadWorkflow("", "", None, (problem,))
