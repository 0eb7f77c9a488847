"""An episode: a model, and the effects of the actions in a policy's replies.

A state is a pure function of the model and the replies. Nothing is kept between two steps except a
bounded memory of states, to avoid solving the same models again.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from assay_reward.or_debug.episode.actions import Action, ActionName, InvalidTurn, parse_action
from assay_reward.or_debug.episode.repair import (
    EDITS,
    changed_columns,
    changed_rows,
    edit,
    find_row,
    shown,
)
from assay_reward.or_debug.models.iis import Irreducible, irreducible
from assay_reward.or_debug.models.model import OptimizationModel, number
from assay_reward.or_debug.models.slack import slack_text
from assay_reward.or_debug.models.solver import SolveOutcome, solve
from assay_shared.errors import InvalidInput

_MAX_MEMBERS_SHOWN = 24


@dataclass(frozen=True)
class EpisodeStep:
    """A reply: its action, or the reason of its refusal, and the model's optimality after it."""

    action: Action | None
    refusal: str
    optimal: bool


@dataclass(frozen=True)
class State:
    """An episode after some replies. `submitted` is None until SUBMIT."""

    start: OptimizationModel
    max_turns: int
    model: OptimizationModel
    outcome: SolveOutcome
    steps: tuple[EpisodeStep, ...] = ()
    submitted: tuple[str, ...] | None = None
    observation: str = ""

    @property
    def turns_left(self) -> int:
        return self.max_turns - len(self.steps)

    @property
    def done(self) -> bool:
        return self.submitted is not None or self.turns_left <= 0

    @property
    def changed(self) -> tuple[str, ...]:
        """Rows and variables changed by the actions in force."""
        return changed_rows(self.start, self.model) + changed_columns(self.start, self.model)

    @property
    def diagnosis(self) -> tuple[str, ...]:
        """The submitted names; if there are none, the rows and variables in `changed`."""
        return self.submitted or self.changed


def begin(model: OptimizationModel, max_turns: int, time_limit_s: float) -> State:
    """Return the state before the first reply. Raises as `solve`."""
    return State(model, max_turns, model, solve(model, time_limit_s))


def advance(state: State, reply: str, time_limit_s: float) -> State:
    """Return the state after another reply.

    Raises:
        InvalidInput: the episode has ended already.
        TimedOut, SolverFault: the solver gave no verdict; the reply is neither taken nor refused.
    """
    if state.done:
        raise InvalidInput(
            f"the episode ended with turn {len(state.steps)}: nothing can follow", field="turns"
        )
    try:
        action = parse_action(reply)
        after, told = _act(state, action, time_limit_s)
    except InvalidTurn as refusal:
        step = EpisodeStep(None, str(refusal), state.outcome.is_optimal)
        after, told = state, f"Invalid: {refusal}.\nNothing has changed."
    else:
        step = EpisodeStep(action, "", after.outcome.is_optimal)
    after = replace(after, steps=(*state.steps, step))
    return replace(after, observation=f"{told}\n{_standing(after)}")


def _act(state: State, action: Action, time_limit_s: float) -> tuple[State, str]:
    """Return the state without the new step, and the text for the policy. Raises: InvalidTurn."""
    if action.name in EDITS:
        model, told = edit(state.model, state.start, action)
        return replace(state, model=model, outcome=solve(model, time_limit_s)), told
    if action.name is ActionName.SUBMIT:
        _check_known(state.start, action.names)
        return replace(state, submitted=action.names), f"Submitted: {_list(action.names)}."
    if action.name is ActionName.CHECK_SLACK:
        row = find_row(state.model, state.start, action.target)
        return state, slack_text(state.model, state.outcome, row, time_limit_s)
    return state, _tell_iis(state, time_limit_s)


def _check_known(model: OptimizationModel, names: Iterable[str]) -> None:
    for name in names:
        if name not in model.rows_by_name and name not in model.columns_by_name:
            raise InvalidTurn(f"no row or variable is called {name:.60}; SUBMIT takes names only")


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "no names"


def _tell_iis(state: State, time_limit_s: float) -> str:
    if state.outcome.status != "infeasible":
        return "The model is feasible: it has no infeasible subset."
    return iis_text(state.model, irreducible(state.model, time_limit_s))


def iis_text(model: OptimizationModel, found: Irreducible) -> str:
    """Return the members as text (the first of a very large set), then the names of the rows."""
    members = [shown(model, model.row(name)) for name in found.rows]
    for bound in found.bounds:
        column = model.column(bound.column)
        side = column.lower if bound.side == "lower" else column.upper
        sign = ">=" if bound.side == "lower" else "<="
        integer = " (integer)" if column.is_integer else ""
        members.append(f"bound {column.name} {sign} {number(side)}{integer}")
    more = len(members) - _MAX_MEMBERS_SHOWN
    told = [f"These {len(members)} cannot all hold:", *members[:_MAX_MEMBERS_SHOWN]]
    told += [f"and {more} more"] if more > 0 else []
    return "\n".join([*told, f"Rows: {', '.join(found.rows) or 'none'}"])


def _standing(state: State) -> str:
    """Return the status, the objective and the number of replies left, as text."""
    objective = state.outcome.objective
    value = f", objective {number(round(objective, 6))}" if objective is not None else ""
    left = "The episode has ended." if state.done else f"Turns left: {state.turns_left}"
    return f"Status: {state.outcome.status}{value}\n{left}"


class Episodes:
    """Replays of episodes, with a memory of the latest states. Safe for threads."""

    def __init__(self, time_limit_s: float, max_states: int = 4096) -> None:
        """Prepare the cache; `time_limit_s` limits each solve."""
        self._time_limit_s = time_limit_s
        self._max_states = max_states
        self._states: OrderedDict[tuple[str, int, tuple[str, ...]], State] = OrderedDict()
        self._lock = threading.Lock()

    def replay(self, model: OptimizationModel, turns: tuple[str, ...], max_turns: int) -> State:
        """Return the state after `turns`, starting from their longest remembered part.

        Raises:
            InvalidInput: there are turns after the end of the episode.
            TimedOut, SolverFault: the solver gave no verdict.
        """
        num_known, state = self._longest_known(model, turns, max_turns)
        for at in range(num_known, len(turns)):
            state = advance(state, turns[at], self._time_limit_s)
            self._keep((model.digest, max_turns, turns[: at + 1]), state)
        return state

    def _longest_known(
        self, model: OptimizationModel, turns: tuple[str, ...], max_turns: int
    ) -> tuple[int, State]:
        for length in range(len(turns), -1, -1):
            key = (model.digest, max_turns, turns[:length])
            with self._lock:
                if key in self._states:
                    self._states.move_to_end(key)
                    return length, self._states[key]
        state = begin(model, max_turns, self._time_limit_s)
        self._keep((model.digest, max_turns, ()), state)
        return 0, state

    def _keep(self, key: tuple[str, int, tuple[str, ...]], state: State) -> None:
        with self._lock:
            self._states[key] = state
            if len(self._states) > self._max_states:
                self._states.popitem(last=False)
