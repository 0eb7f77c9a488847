"""Verdicts of stored completions of HumanEval+ and MBPP, compared with evalplus's."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import Place, Row
from assay_trainer.data.importers.humaneval import HUMANEVAL
from assay_trainer.data.importers.mbpp import MBPP
from assay_trainer.evaluate.job import EvaluationJob, run_job
from assay_trainer.evaluate.options import protocol_of
from assay_trainer.evaluation.records.folder import read_evaluation
from tests.support.evalplus.completions import MadeCompletion, human_eval, mbpp, read_rows

_ROOT = Path(__file__).parents[2]
_VERDICTS = _ROOT / "tests" / "support" / "evalplus" / "verdicts.py"
_NUM_MBPP = 172


@pytest.fixture(scope="module")
def published() -> Path:
    """An interpreter with evalplus; the test is skipped without one."""
    named = os.environ.get("ASSAY_EVALPLUS")
    interpreter = Path(named) if named else _ROOT / ".venv-evalplus" / "bin" / "python"
    if not interpreter.exists():
        pytest.skip("needs evalplus: make evalplus, or name an interpreter in ASSAY_EVALPLUS")
    return interpreter


def published_verdicts(interpreter: Path, made: Sequence[MadeCompletion]) -> list[bool]:
    lines = "".join(json.dumps(asdict(one)) + "\n" for one in made)
    done = subprocess.run(
        [interpreter, _VERDICTS],
        input=lines,
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def tasks_of(folder: Path) -> dict[str, Task]:
    """Return the tasks of both sets, by their ids as evalplus has them."""
    found = {}
    for name, published in (("humaneval_plus_originfmt", HUMANEVAL), ("mbpp_974", MBPP)):
        for number, row in enumerate(read_rows(folder / f"{name}.jsonl.gz")):
            if published is MBPP and not 11 <= row["task_id"] <= 510:
                continue
            place = Place("test", Role.TEST, number, name)
            for one in published.read(Row(row), place):
                found[str(row["task_id"])] = one.task
    return found


def own_verdicts(
    made: Sequence[MadeCompletion], tasks: dict[str, Task], folder: Path, num_each: int
) -> list[bool]:
    """Return the verdicts of `assay evaluate`, for `num_each` completions of each task."""
    folder.mkdir()
    used = {one.task_id: tasks[one.task_id] for one in made}
    (folder / "tasks.jsonl").write_text(
        "".join(task.model_dump_json() + "\n" for task in used.values())
    )
    answers = [{"task_id": tasks[one.task_id].id, "text": one.text} for one in made]
    (folder / "answers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in answers))
    job = EvaluationJob(
        sets=[f"set={folder / 'tasks.jsonl'}"],
        output=folder / "out",
        protocol=protocol_of(
            None, {"kind": "sampled", "samples_per_task": num_each} if num_each > 1 else {}
        ),
        answers=folder / "answers.jsonl",
    )
    nowhere = ServiceSettings(reward_url="http://127.0.0.1:9")
    assert run_job(job, nowhere, Console(quiet=True))
    samples = read_evaluation(job.output).sets["set"].samples
    return [one.outcome == "accepted" for one in samples]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_five_hundred_verdicts_are_those_of_the_published_harness(
    published: Path, data_folder: Path, tmp_path: Path
) -> None:
    folder = data_folder / "evalplus"
    tasks = tasks_of(folder)
    whole, basic = [*human_eval(folder, 2)], [*mbpp(folder, _NUM_MBPP)]
    assert len(whole) + len(basic) == 500

    theirs = published_verdicts(published, [*whole, *basic])
    ours = own_verdicts(whole, tasks, tmp_path / "he", 2)
    ours += own_verdicts(basic, tasks, tmp_path / "mbpp", 1)

    assert 150 < sum(theirs) < 350  # both verdicts are there
    differing = [
        (one.dataset, one.task_id, verdict)
        for one, verdict, own in zip([*whole, *basic], theirs, ours, strict=True)
        if verdict != own
    ]
    assert differing == []
