"""The witness table: `python -m tests.support.witnesses` measures and prints it.

Every field of the objective and of the sampler stands there, with a batch on which it changes the
gradient or the samples that are learnt, and one on which it must not.
"""

import sys
from collections.abc import Mapping

from assay_shared.types import Task
from assay_trainer.grpo_config import GRPOConfig
from tests.support.objective_witnesses import BASE, OBJECTIVE_WITNESSES, ObjectiveWitness
from tests.support.order_witnesses import ORDER_WITNESSES, OrderWitness, sampled
from tests.support.sampler_witnesses import BASE as SAMPLER_BASE
from tests.support.sampler_witnesses import SAMPLER_WITNESSES, SamplerPolicy, SamplerWitness, learnt

#: Fields that change neither the objective nor which samples are learnt, and what they are of.
OTHER_FIELDS = {
    "steps": "the length of the stage",
    "learning_rate": "the optimiser",
    "warmup_steps": "the optimiser",
    "optimiser": "the optimiser",
    "max_grad_norm": "the optimiser",
    "tokens_per_pack": "memory: no gradient depends on it",
    "sync": "what inference does with answers in flight: tests/engines",
    "max_flat_steps": "the end of the stage",
    "group_timeout_s": "failures",
    "group_attempts": "failures",
    "max_failed_groups": "failures",
    "max_mismatch_nats": "failures",
    "checkpoint_every": "checkpoints",
    "signal_check": "the check before the stage",
    "allow_inert": "the check before the run",
}
Witness = ObjectiveWitness | SamplerWitness | OrderWitness
EVERY: tuple[Witness, ...] = (*OBJECTIVE_WITNESSES, *SAMPLER_WITNESSES, *ORDER_WITNESSES)
HEADER = ("setting", "change", "acts on", "must leave")


def written(value: object) -> str:
    """Return a value as a run file has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def table() -> list[tuple[str, ...]]:
    """Return the rows of the table, without what is measured."""
    return [
        (f"`{one.name}`", f"{_before(one)} to {written(one.value)}", one.acts_on, one.idle_on)
        for one in EVERY
    ]


def markdown(rows: list[tuple[str, ...]], header: tuple[str, ...] = HEADER) -> list[str]:
    """Return the lines of a table."""
    lines = [header, ("---",) * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _before(one: Witness) -> str:
    """Return the value that the field has on the other side, with the settings of both sides."""
    if isinstance(one, OrderWitness):
        return written(one.before)
    base = BASE if isinstance(one, ObjectiveWitness) else SAMPLER_BASE
    config = GRPOConfig.model_validate({**base, **one.base})
    value = getattr(config, one.name)
    named = value.kind if hasattr(value, "kind") else written(value)
    others = [f"{name} {written(own)}" for name, own in one.base.items() if name != one.name]
    return f"with {', '.join(others)}: {named}" if others else named


def measured(one: Witness) -> tuple[str, ...]:
    """Return what the field changes where it acts, and where it may not."""
    if isinstance(one, ObjectiveWitness):
        return tuple(f"gradient {change:.1e}" for change in one.changes())
    if isinstance(one, OrderWitness):
        return _of_tasks(one, one.acts), _of_tasks(one, one.idle)
    return (
        _of_draws(one, one.base, one.acts, 3),
        _of_draws(one, {**one.base, **one.idle_base}, one.idle, one.idle_steps),
    )


def _of_draws(
    row: SamplerWitness, base: Mapping[str, object], policy: SamplerPolicy, num_steps: int
) -> str:
    before = set(learnt(base, policy, num_steps))
    return f"samples {len(before ^ set(learnt({**base, row.name: row.value}, policy, num_steps)))}"


def _of_tasks(row: OrderWitness, tasks: list[Task]) -> str:
    both = {sampled(tasks, row.name, value) for value in (row.before, row.value)}
    return f"tasks {'differ' if len(both) > 1 else 'are the same'}"


def main() -> None:
    """Print the table with what was measured: the change of the gradient, or of the samples."""
    rows = [(*row, *measured(one)) for row, one in zip(table(), EVERY, strict=True)]
    sys.stdout.write("\n".join(markdown(rows, (*HEADER, "changes", "leaves"))) + "\n")


if __name__ == "__main__":
    main()
