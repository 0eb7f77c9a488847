"""Differences between arms that forbid a comparison, or have to be said before it."""

from collections.abc import Iterator, Sequence

from assay_shared.errors import InvalidInput
from assay_trainer.comparison.arms import ComparedArm, ComparedSet, SeedEvaluation

_MOST_SHOWN = 6
_MOST_TAGS = 30
_SHORT = 12


def check_arms(baseline: ComparedArm, others: Sequence[ComparedArm]) -> None:
    """Check that the arms can be told apart.

    Raises:
        InvalidInput: nothing to compare, two arms of one name, or two of the same files.
    """
    if not others:
        raise InvalidInput(
            "a comparison needs two sides", hint="assay compare A B, or a run with both evaluations"
        )
    arms, seen = (baseline, *others), dict[str, ComparedArm]()
    for arm in arms:
        for one in arm.measurements:
            if one.files_digest in seen:
                raise InvalidInput(
                    f"{arm.name} and {seen[one.files_digest].name} are the same evaluation: "
                    f"the files in {one.path} are identical"
                )
            seen[one.files_digest] = arm
    names = [arm.name for arm in arms]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"two arms are called {twice!r}", hint="name them: --arm NAME=PATH")


def check_tags(arms: Sequence[ComparedArm], tags: Sequence[str]) -> None:
    """Check that some task has each tag.

    Raises:
        InvalidInput: no task has one of them; names the tags that there are.
    """
    sets = [tasks for arm in arms for one in arm.measurements for tasks in one.sets.values()]
    known = sorted({tag for one in sets for task in one.tasks.values() for tag in task.tags})
    unknown = next((tag for tag in tags if tag not in known), None)
    if unknown is not None:
        shown = ", ".join(known[:_MOST_TAGS]) or "none"
        more = f" and {len(known) - _MOST_TAGS} more" if len(known) > _MOST_TAGS else ""
        raise InvalidInput(
            f"no task has the tag {unknown!r}", field="--by", hint=f"tags: {shown}{more}"
        )


def check_prompts(baseline: ComparedArm, other: ComparedArm) -> None:
    """Check that a task's id means the same prompt everywhere.

    Raises:
        InvalidInput: tasks of one set and id have different prompts.
    """
    for name in baseline.set_names:
        first = {
            id_: task.prompt for one in baseline.sets_of(name) for id_, task in one.tasks.items()
        }
        changed = sorted(
            id_
            for one in (*other.sets_of(name), *baseline.sets_of(name))
            for id_, task in one.tasks.items()
            if id_ in first and first[id_] != task.prompt
        )
        if changed:
            shown = ", ".join(dict.fromkeys(changed[:_MOST_SHOWN]))
            raise InvalidInput(
                f"{len(set(changed))} tasks of {name} have other prompts in {other.name} than in "
                f"{baseline.name}: {shown}",
                hint="other prompts are other tasks: give them other ids",
            )


def differences(baseline: ComparedArm, others: Sequence[ComparedArm]) -> list[str]:
    """Return each setting, set or scorer that differs from the baseline's first evaluation."""
    first, *more = baseline.measurements
    found: dict[str, None] = {}
    for name, one in [(baseline.name, m) for m in more] + [
        (arm.name, m) for arm in others for m in arm.measurements
    ]:
        for text in _differing(baseline.name, first, name, one):
            found[text] = None
    return list(found)


def _differing(
    first_name: str, first: SeedEvaluation, name: str, one: SeedEvaluation
) -> Iterator[str]:
    for key in sorted({*first.settings, *one.settings}):
        old, new = first.settings.get(key), one.settings.get(key)
        if old is not None and new is not None and old != new:
            yield f"{key}: {old} in {first_name}, {new} in {name}"
    for set_name, old_set in first.sets.items():
        new_set = one.sets.get(set_name)
        if new_set is None:
            continue
        for key, old, new in _set_facts(old_set, new_set):
            if old is not None and new is not None and old != new:
                yield f"{set_name}.{key}: {old} in {first_name}, {new} in {name}"


def _set_facts(old: ComparedSet, new: ComparedSet) -> list[tuple[str, str | None, str | None]]:
    return [
        ("digest", _short(old.digest), _short(new.digest)),
        ("scorers", _joined(old.scorers), _joined(new.scorers)),
    ]


def _joined(scorers: tuple[str, ...] | None) -> str | None:
    return None if scorers is None else " ".join(scorers)


def _short(digest: str | None) -> str | None:
    return None if digest is None else digest[:_SHORT]


def refuse_differences(found: Sequence[str]) -> None:
    """Refuse arms that were measured differently.

    Raises:
        InvalidInput: there are differences; names the first of them.
    """
    if found:
        more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        raise InvalidInput(
            f"the evaluations were not measured the same way: "
            f"{'; '.join(found[:_MOST_SHOWN])}{more}",
            hint="evaluate them alike, or compare them anyway with --allow-different",
        )


def notes(baseline: ComparedArm, others: Sequence[ComparedArm]) -> list[str]:
    """Return sentences that a reader needs before the numbers, apart from `differences`."""
    arms = (baseline, *others)
    found = [
        f"{arm.name} ({one.path}) is unfinished: its missing samples count as samples "
        f"without a score."
        for arm in arms
        for one in arm.measurements
        if not one.is_finished
    ]
    found += [
        f"{arm.name} ({one.path}) has no metrics.json of {', '.join(one.unchecked)}: its samples "
        f"were not checked against the numbers of their evaluation."
        for arm in arms
        for one in arm.measurements
        if one.unchecked
    ]
    known = [one for one in baseline.policy_digests if one]
    for arm in others:
        if known and set(arm.policy_digests) & set(known):
            found.append(
                f"{arm.name} and {baseline.name} are the same policy: their weights have the "
                f"digest {known[0][:_SHORT]}."
            )
    found += _not_recorded(baseline, others)
    for arm in arms:
        for one in arm.measurements:
            for tasks in one.sets.values():
                if not all(task.has_tokens for task in tasks.tasks.values()):
                    found.append(
                        f"{arm.name}: the tokens of some answers of {tasks.name} are not known, so "
                        f"the set has no costs in tokens."
                    )
                if tasks.num_replaced:
                    found.append(
                        f"{arm.name}: {tasks.num_replaced} samples of {tasks.name} stand in "
                        f"several lines; the last line of each counts."
                    )
    return list(dict.fromkeys(found))


def _not_recorded(baseline: ComparedArm, others: Sequence[ComparedArm]) -> Iterator[str]:
    """Yield what an arm did not record although another did."""
    first = baseline.measurements[0]
    for arm in others:
        one = arm.measurements[0]
        for name, lacking, having in ((arm.name, one, first), (baseline.name, first, one)):
            unknown = sorted(set(having.settings) - set(lacking.settings))
            unknown += [
                f"{key}.scorers"
                for key, tasks in having.sets.items()
                if key in lacking.sets and tasks.scorers and not lacking.sets[key].scorers
            ]
            if unknown:
                yield f"{name} does not record {', '.join(unknown)}: nobody can say if they differ."
