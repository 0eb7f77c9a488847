"""Tasks of workflows, made of other tasks: the policy writes a workflow in place of an answer."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue, ValidationError

from assay_reward.workflows.operators.support.prompt_files import OperatorPrompt
from assay_reward.workflows.operators.table import OPERATORS
from assay_reward.workflows.playing.options import ENVIRONMENT, WorkflowOptions
from assay_reward.workflows.playing.reading import read_here
from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.settings.validation import validated
from assay_shared.types import EnvironmentTask, Task

#: Characters of a workflow: more is not valid.
_MAX_SHOWN: Final = 16_385
_PROMPTS: Final = Path(__file__).parent / "prompts"


def to_workflow_task(
    task: Task, max_turns: int = 1, rubric: str = "workflow", gold: str | None = None
) -> Task:
    """Return the task to write a workflow for the problem of `task`.

    The task's rubric, reference, tests and tags stay, for the answer of the workflow. `gold` is the
    policy's own answer, a workflow for demonstrations. So the known answer moves to `reference`.

    Raises:
        DatasetError: the task has another environment, no prompt or no rubric, or a long problem.
    """
    if task.environment is not None:
        raise DatasetError(
            f"task {task.id} has the environment {task.environment.name}", field="environment"
        )
    for field in ("prompt", "rubric"):
        if not getattr(task, field).strip():
            raise DatasetError(f"task {task.id} has no {field}", field=field)
    problem = task.prompt
    if task.history:  # without its roles, nobody could tell the turns apart
        turns = [*((one.role, one.content) for one in task.history), ("user", task.prompt)]
        problem = "\n\n".join(f"{role.capitalize()}: {content}" for role, content in turns)
    instance: dict[str, JsonValue] = {"problem": problem, "rubric": task.rubric}
    try:
        validated(WorkflowOptions, instance, "environment.instance")
    except InvalidInput as error:
        raise DatasetError(f"task {task.id}: {error}", field=error.field) from None
    return task.model_copy(
        update={
            "id": f"{ENVIRONMENT}/{task.id}",
            "prompt": policy_prompt(problem, max_turns),
            "history": (),
            "rubric": rubric,
            "gold": gold,
            "reference": task.reference if task.reference is not None else task.gold,
            "environment": EnvironmentTask(
                name=ENVIRONMENT,
                instance=instance,
                max_turns=max_turns,
            ),
        }
    )


def shown_workflows(path: Path) -> list[str]:
    """Return the workflows of a file, or of all files of a folder, for demonstrations.

    Raises:
        DatasetError: there is none, or one cannot be read or is not valid; names it.
    """
    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    if not files:
        raise DatasetError(f"{path} has no workflow", field="shown")
    found = []
    for file in files:
        try:
            with file.open(encoding="utf-8-sig") as opened:
                text = opened.read(_MAX_SHOWN)
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{file} cannot be read: {error}", field="shown") from None
        read = read_here(text, False)
        if read.tree is None:
            problems = "; ".join(read.problems)
            raise DatasetError(f"{file} is not a valid workflow: {problems}", field="shown")
        found.append(text.strip())
    return found


def policy_prompt(problem: str, max_turns: int = 1) -> str:
    """Return what the policy reads: the language, the operators, and the problem."""
    prompt = OperatorPrompt("policy", (_PROMPTS / "policy.txt").read_text().strip())
    turns = "" if max_turns == 1 else (_PROMPTS / "turns.txt").read_text().strip()
    return prompt.filled(
        {
            "operators": operator_list(),
            "turns": turns.format(max_turns=max_turns),
            "problem": problem,
        }
    )


def operator_list() -> str:
    """Return a line for each operator: parameters, fields of the result, description."""
    lines = []
    for name, operator in OPERATORS.items():
        given = ", ".join(
            one if parameter.required else f"{one} (optional)"
            for one, parameter in operator.signature.parameters.items()
        )
        fields = ", ".join(operator.signature.fields)
        lines.append(f"{name}({given}) -> {fields}. {operator.description}")
    return "\n".join(lines)


def tasks_at(path: Path) -> Iterator[Task]:
    """Yield the tasks of a file, or of every tasks.jsonl in a folder and below it.

    Raises:
        DatasetError: a folder has no such file, or a line is not a task.
    """
    files = sorted(path.rglob("tasks.jsonl")) if path.is_dir() else [path]
    if not files:
        raise DatasetError(f"{path} has no tasks.jsonl")
    for file in files:
        yield from read_tasks(file)


def read_tasks(path: Path) -> Iterator[Task]:
    """Yield the tasks of a JSONL file.

    Raises:
        DatasetError: a line is not a task; names the line and the field.
    """
    try:
        with path.open() as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _task_of(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


def _task_of(line: str, place: str) -> Task:
    try:
        return Task.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        raise DatasetError(f"{place}: {first['msg']}", field=field) from None


def write_tasks(tasks: Iterable[Task], path: Path) -> None:
    """Write a line for each task, with all its fields: datasets name each role."""
    with path.open("w") as file:
        for task in tasks:
            file.write(task.model_dump_json() + "\n")


def refuse_twice(names: Sequence[str], field: str) -> None:
    """Raise DatasetError for a name that stands there twice."""
    twice = sorted(name for name, number in Counter(names).items() if number > 1)
    if twice:
        raise DatasetError(f"{twice[0]!r} stands there twice", field=field)
