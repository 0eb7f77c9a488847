"""Repairs a source where the fix is plain, and records every fix. The rest stays an error."""

from dataclasses import dataclass, replace

from assay_reward.workflows.language.assignment import flow_of
from assay_reward.workflows.language.checker import CheckedWorkflow, check_tree
from assay_reward.workflows.language.limits import DEFAULT_LIMITS, WorkflowLimits
from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.signatures import OPERATORS, Signatures
from assay_reward.workflows.language.slips import Slip
from assay_reward.workflows.language.source import (
    WorkflowForm,
    check_source,
    print_workflow,
    read_workflow,
)
from assay_reward.workflows.language.tree import Position, Workflow
from assay_reward.workflows.repair.dead_steps import (
    dead_repairs,
    places_of,
    without_dead_steps,
)
from assay_reward.workflows.repair.edits import RepairKind, SourceRepair, applied, diff_of
from assay_reward.workflows.repair.idioms.python_idioms import rewritten_python
from assay_reward.workflows.repair.idioms.record import RewrittenSource
from assay_reward.workflows.repair.idioms.text_idioms import rewritten_text
from assay_reward.workflows.repair.initialise import initial_repairs, marked
from assay_reward.workflows.repair.operator_names import operator_repairs


@dataclass(frozen=True, slots=True)
class RepairedWorkflow:
    """A source after repair, its check, and the repairs with places in the source as given."""

    given: str
    source: str
    form: WorkflowForm
    repairs: tuple[SourceRepair, ...]
    checked: CheckedWorkflow

    def diff(self) -> str:
        """Return a unified diff from the given source; empty without repairs."""
        return diff_of(self.given, self.source)


def rewritten(
    source: str, form: WorkflowForm, signatures: Signatures, limits: WorkflowLimits
) -> RewrittenSource:
    """Return the source with its idioms in the words of the language."""
    if form is WorkflowForm.PYTHON:
        return rewritten_python(source, signatures, limits)
    return rewritten_text(source, signatures, limits)


def repair_source(
    source: str,
    form: WorkflowForm,
    signatures: Signatures = OPERATORS,
    limits: WorkflowLimits = DEFAULT_LIMITS,
) -> RepairedWorkflow:
    """Return the repaired source; problems that have no plain fix are in its check.

    Raises:
        InvalidWorkflow: the source cannot be read, or its repair exceeds a limit.
    """
    given = source.replace("\r\n", "\n")
    plain = rewritten(given, form, signatures, limits)
    source = plain.source
    tree, slips = _read(plain, form, limits)
    words = [
        SourceRepair(RepairKind(slip.word), slip.position, "", f"{slip.word} ") for slip in slips
    ]
    words += operator_repairs(tree, source, signatures)
    # These edits stay inside their lines, so lines still have their numbers.
    spelled = applied(source, words)
    if words:
        tree, _ = read_workflow(spelled, form, limits)
    dead = flow_of(tree).dead
    removed = dead_repairs(dead, spelled)
    places: dict[Position, Position] = {}
    if dead:
        reached = without_dead_steps(tree, dead)
        spelled = print_workflow(reached, form)
        tree, _ = read_workflow(spelled, form, limits)
        places = places_of(tree, reached)
    firsts = initial_repairs(tree, spelled, form, signatures)
    repaired = applied(spelled, firsts)
    checked = (
        check_source(repaired, form, signatures, limits)
        if plain.repairs or words or dead or firsts
        else check_tree(tree, signatures, limits)
    )
    if firsts:
        checked = replace(checked, tree=marked(checked.tree, firsts))
    firsts = [replace(one, position=places.get(one.position, one.position)) for one in firsts]
    later = [
        replace(one, position=plain.given_place(one.position))
        for one in (*words, *removed, *firsts)
    ]
    found = sorted(
        (*plain.repairs, *later), key=lambda one: (one.position.line, one.position.column)
    )
    return RepairedWorkflow(given, repaired, form, tuple(found), checked)


def _read(
    plain: RewrittenSource, form: WorkflowForm, limits: WorkflowLimits
) -> tuple[Workflow, tuple[Slip, ...]]:
    """Return the tree and the slips of a source; problems have their places in the given one."""
    try:
        return read_workflow(plain.source, form, limits)
    except InvalidWorkflow as error:
        raise InvalidWorkflow(
            [replace(one, position=plain.given_place(one.position)) for one in error.problems]
        ) from None
