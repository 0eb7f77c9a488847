"""Tasks made from seeds: small functions, sums and lookups, described in words.

The hash of a task's words assigns it to the held-out set or to training. No seed can move it, so
no training task can be an evaluation task.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.synthetic import arithmetic, functions, lookup
from assay_trainer.data.synthetic.problem import Family, SyntheticProblem

DATASET = "generated"
DOMAINS = {
    "code": (functions.FAMILIES, "code.dense"),
    "arithmetic": (arithmetic.FAMILIES, "math"),
    "lookup": (lookup.FAMILIES, "qa"),
}
#: One task of this number is held out.
_HELD_OUT_ONE_IN = 5
#: Draws without a new task after which a family counts as used up.
_MAX_IDLE_DRAWS = 300


@dataclass(frozen=True)
class Generated:
    """A task, its right answer and, by kind, wrong answers for demonstrations."""

    task: Task
    gold: str
    mistakes: Mapping[str, str]


def generate(num_tasks: int, seed: int, shares: Mapping[str, float], role: Role) -> list[Generated]:
    """Return distinct tasks of a role, shuffled; equal arguments give equal tasks.

    Raises:
        DatasetError: a domain has fewer tasks.
    """
    if sum(shares.values()) <= 0:
        raise DatasetError("at least one domain needs a share above 0")
    found: list[Generated] = []
    left, weight = num_tasks, sum(shares.values())
    for domain, share in shares.items():
        count = round(left * share / weight)
        found += _generate_domain(domain, count, random.Random(f"{seed}/{role}/{domain}"), role)
        left, weight = left - count, weight - share
        if weight <= 0:
            break
    random.Random(f"{seed}/{role}").shuffle(found)
    return found


def _generate_domain(domain: str, count: int, rng: random.Random, role: Role) -> list[Generated]:
    families, rubric = DOMAINS[domain]
    left = sorted(families)
    found: dict[str, Generated] = {}
    while len(found) < count:
        if not left:
            raise DatasetError(f"there are only {len(found)} {role} tasks of {domain}, not {count}")
        # In turn, so that families with few parameters are not crowded out.
        name = left[len(found) % len(left)]
        problem = _draw(families[name], rng, role, found)
        if problem is None:
            left.remove(name)
        else:
            found[problem.words] = _to_task(problem, domain, name, rubric, role)
    return list(found.values())


def _draw(
    family: Family, rng: random.Random, role: Role, found: Mapping[str, Generated]
) -> SyntheticProblem | None:
    """Return a new problem of the role; None if the family seems used up."""
    for _ in range(_MAX_IDLE_DRAWS):
        problem = family(rng)
        if _role(problem.words) is role and problem.words not in found:
            return problem
    return None


def _role(words: str) -> Role:
    held_out = int(_fingerprint(words), 16) % _HELD_OUT_ONE_IN == 0
    return Role.TEST if held_out else Role.TRAIN


def _fingerprint(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()


def _to_task(
    problem: SyntheticProblem, domain: str, family: str, rubric: str, role: Role
) -> Generated:
    task = Task(
        id=f"{DATASET}/{family}/{_fingerprint(problem.words)[:12]}",
        dataset=DATASET,
        role=role,
        prompt=problem.words,
        rubric=rubric,
        gold=problem.gold,
        tests=problem.tests,
        tags={"domain": domain, "family": family},
    )
    return Generated(task, problem.gold, problem.mistakes)
