"""MdEnsemble: votes on solutions in shuffled orders, against a preference for a place."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
    texts_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file
from assay_reward.workflows.operators.support.votes import (
    chosen,
    labelled,
    most_frequent,
    winner,
)

_VOTES = 5


async def md_ensemble(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the solution with the most votes; of a tie, the earliest in the list.

    A vote without a readable label does not count. Without any vote, equal texts decide.
    """
    solutions = texts_in(arguments, "solutions")
    if len(set(solutions)) < 2:
        context.note("nothing to choose from")
        return {"solution": solutions[0] if solutions else ""}
    orders = [context.rng.sample(range(len(solutions)), k=len(solutions)) for _ in range(_VOTES)]
    problem = text_in(arguments, "problem")
    asked = [
        {"problem": problem, "solutions": labelled([solutions[place] for place in order])}
        for order in orders
    ]
    replies = await context.ask_each(prompt_file("md_ensemble"), asked, temperature=0.7)
    votes = [
        order[choice]
        for order, reply in zip(orders, replies, strict=True)
        if (choice := chosen(reply, [solutions[at] for at in order])) is not None
    ]
    context.note(f"{len(votes)} of {_VOTES} votes could be read")
    return {"solution": solutions[winner(votes) if votes else most_frequent(solutions)]}
