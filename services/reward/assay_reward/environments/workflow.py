"""Workflows: the policy writes a program of model calls, and may edit it after its trace.

With one turn, the reply is the workflow, and scoring plays it. With more, each turn is answered by
the problems of the text or an outline of its run. See docs/workflow_environment.md.
"""

from assay_reward.environment import StepEnvironment
from assay_reward.environment_task import check_not_over, played_in, read_instance
from assay_reward.instruments import Instruments
from assay_reward.programs import limits_of
from assay_reward.workflows.playing.feedback import keeps, observation, without_keep
from assay_reward.workflows.playing.options import ENVIRONMENT, WorkflowOptions
from assay_reward.workflows.playing.played import PREFIX
from assay_reward.workflows.playing.player import WorkflowTask
from assay_shared.errors import ERRORS, ExecutorFault, InfrastructureError
from assay_shared.types import Failure, FailureClass, StepResponse, Task

NAME = ENVIRONMENT


async def _step(task: Task, turns: tuple[str, ...], instruments: Instruments) -> StepResponse:
    """Play the last workflow, and show it to the policy without the hidden answer."""
    played = played_in(task, NAME)
    options = read_instance(played, WorkflowOptions)
    check_not_over(len(turns), played.max_turns)
    if not turns:
        return StepResponse(observation=task.prompt, done=False)
    if keeps(turns):
        return StepResponse(observation="The workflow is kept.", done=True)
    found = await instruments.workflows.play_turns(
        WorkflowTask(task, options, limits_of(task)), without_keep(turns), instruments.workers
    )
    if found.run is not None and found.run.failure is not None:
        raise _error_of(found.run.failure)
    turns_left = played.max_turns - len(turns)
    measures = found.measures()
    return StepResponse(
        observation=observation(found, turns_left),
        done=turns_left == 0,
        parts={name: measures[PREFIX + name] for name in ("valid", "success", "num_repairs")},
        facts=found.evidence(options.trace_chars),
    )


def _error_of(failure: Failure) -> InfrastructureError:
    """Return the failure of a run as an error; the trainer leaves the episode without a score."""
    kinds = {FailureClass.SANDBOX: "SandboxFault", FailureClass.OVERLOAD: "Overloaded"}
    kind = ERRORS[kinds.get(failure.failure_class, ExecutorFault.__name__)]
    error = kind(failure.message, service=failure.service, attempts=failure.attempts)
    assert isinstance(error, InfrastructureError)
    return error


WORKFLOW = StepEnvironment("Write a workflow of model calls that solves a problem.", _step)
