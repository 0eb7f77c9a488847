"""ScEnsemble: the solution whose answer most solutions share, as the executor reads them."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
    texts_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file
from assay_reward.workflows.operators.support.votes import chosen, labelled, most_frequent


async def sc_ensemble(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the chosen solution. Without a readable label, equal texts decide.

    Of no solution, the result is an empty text; a single solution needs no choice.
    """
    solutions = texts_in(arguments, "solutions")
    if len(set(solutions)) < 2:
        context.note("nothing to choose from")
        return {"response": solutions[0] if solutions else ""}
    values = {"problem": text_in(arguments, "problem"), "solutions": labelled(solutions)}
    reply = await context.ask(prompt_file("sc_ensemble"), values)
    choice = chosen(reply, solutions)
    if choice is None:
        context.note("the reply names no solution; the most frequent text was taken")
        choice = most_frequent(solutions)
    return {"response": solutions[choice]}
