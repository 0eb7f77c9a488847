"""The same command resumes an evaluation, and plays only what is missing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from rich.console import Console

from assay_reward.or_debug.dataset.tasks import save
from assay_reward.or_debug.evaluate import run as running
from assay_reward.or_debug.evaluate.evaluation import EvaluationPlan
from assay_reward.or_debug.evaluate.run import EvaluationRun, run
from assay_reward.or_debug.evaluate.unfinished import UNFINISHED
from assay_shared.errors import Conflict
from assay_shared.types import (
    GenerateRequest,
    GenerateResponse,
    PolicyVersion,
    Role,
    SamplingParams,
    WeightStatus,
)
from tests.conftest import Serve
from tests.support.fakes import make_completion
from tests.support.or_debug.planted import INSTANCE, make_or_task
from tests.support.upstream import Upstream, says

NUM_TASKS = 4


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    made = [
        make_or_task(INSTANCE.model_copy(update={"id": f"t{at}"})).model_copy(
            update={"role": Role.TEST, "tags": {"error_type": "A", "difficulty": "easy"}}
        )
        for at in range(NUM_TASKS)
    ]
    save(made, tmp_path / "tasks.jsonl")
    return tmp_path / "tasks.jsonl"


def order(tasks: Path, policy: str, **options: Any) -> EvaluationRun:
    return EvaluationRun(
        data=tasks, policy=policy, output=tasks.parent / "out", baselines=False, **options
    )


def stored(tasks: Path) -> list[dict[str, Any]]:
    text = (tasks.parent / "out" / "episodes.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_stopped_evaluation_plays_its_missing_episodes(
    tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = order(tasks, "probe", plan=EvaluationPlan(samples=2))
    with monkeypatch.context() as patch:
        patch.setattr(running, "_write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(asked, Console(quiet=True))
    file = tasks.parent / "out" / UNFINISHED
    first, *kept = file.read_text().splitlines(keepends=True)
    file.write_text("".join([first, *kept[:5], kept[5][:20]]))

    run(asked, shown := Console(record=True, width=200))

    assert "resumed: 5 of 8 episodes are there" in shown.export_text()
    wanted = [("probe", f"t{at}", sample) for at in range(NUM_TASKS) for sample in range(2)]
    assert [(one["policy"], one["task_id"], one["sample"]) for one in stored(tasks)] == wanted
    before = [json.loads(line) for line in kept[:5]]
    times = {(one["task_id"], one["sample"]): one["wall_time_s"] for one in stored(tasks)}
    assert all(times[one["task_id"], one["sample"]] == one["wall_time_s"] for one in before)
    assert not file.exists()


def test_only_failed_episodes_are_asked_for_again(tasks: Path, serve: Serve) -> None:
    server = Upstream(400, says("Action: SUBMIT(c3)"))
    asked = order(tasks, serve(server.app) + "/v1", model="m")
    assert run(asked, Console(quiet=True)).num_failed == 1
    num_asked = len(server.requests)

    assert run(asked, Console(quiet=True)).num_failed == 0

    assert num_asked == NUM_TASKS
    assert len(server.requests) == NUM_TASKS + 1
    assert len({one["task_id"] for one in stored(tasks)}) == len(stored(tasks)) == NUM_TASKS
    with pytest.raises(Conflict, match="has an evaluation with a result of each episode"):
        run(asked, Console(quiet=True))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": 1}, "seed: 0, not 1"),
        ({"baselines": True}, r'policies: \["first_row"\], not \["first_row", "constant"'),
        ({"sampling": SamplingParams(max_tokens=9)}, "sampling.max_tokens: 256, not 9"),
        ({"plan": EvaluationPlan(samples=2)}, "samples: 1, not 2"),
    ],
)
def test_other_options_are_refused_by_name(tasks: Path, options: dict[str, Any], told: str) -> None:
    asked = order(tasks, "first_row")
    run(asked, Console(quiet=True))
    with pytest.raises(Conflict, match=f"has an evaluation with other options: {told}"):
        run(replace(asked, **options), Console(quiet=True))


def test_other_weights_of_the_inference_service_are_refused(tasks: Path, serve: Serve) -> None:
    app, digests = FastAPI(), ["a", "a", "b"]

    @app.get("/v1/weights")
    async def weights() -> WeightStatus:
        return WeightStatus(policy=PolicyVersion(version=1, digest=digests.pop(0)))

    @app.post("/v1/generate")
    async def generate(request: GenerateRequest) -> GenerateResponse:
        asked.append(request)
        if len(asked) in (1, 5):
            raise HTTPException(422)
        completion = make_completion("Action: SUBMIT(c3)")
        return GenerateResponse(prompt_token_ids=(1,), completions=(completion,))

    asked: list[GenerateRequest] = []
    wanted = order(tasks, serve(app))
    assert run(wanted, Console(quiet=True)).num_failed == 1
    assert run(wanted, Console(quiet=True)).num_failed == 1
    with pytest.raises(Conflict, match='weights: "a", not "b"'):
        run(wanted, Console(quiet=True))
    assert len(asked) == NUM_TASKS + 1


def test_an_evaluation_that_cannot_be_read_is_not_replaced(tasks: Path) -> None:
    asked = order(tasks, "first_row")
    run(asked, Console(quiet=True))
    file = asked.output / "episodes.jsonl"
    file.write_text(file.read_text().replace('"sample"', '"other"'))
    with pytest.raises(Conflict, match=r"cannot be read \(episodes.jsonl, line 1\)"):
        run(asked, Console(quiet=True))
    file.unlink()
    assert run(asked, Console(quiet=True)).num_failed == 0, "without episodes, nothing is lost"


@pytest.mark.parametrize("written", ["", "\n", '{"policies": ["first_ro'])
def test_an_evaluation_that_ended_in_its_first_line_is_begun_again(
    tasks: Path, written: str
) -> None:
    asked = order(tasks, "first_row")
    asked.output.mkdir()
    (asked.output / UNFINISHED).write_text(written)
    assert run(asked, Console(quiet=True)).num_failed == 0
    assert len(stored(tasks)) == NUM_TASKS


def test_blank_lines_at_the_end_are_harmless_and_others_are_named(tasks: Path) -> None:
    asked = order(tasks, "first_row")
    run(asked, Console(quiet=True))
    file = asked.output / "episodes.jsonl"
    first, rest = file.read_text().split("\n", 1)
    file.write_text(f"{first}\n{rest}\n\n")
    with pytest.raises(Conflict, match="a result of each episode"):
        run(asked, Console(quiet=True))
    file.write_text(f"{first}\n\n{rest}")
    with pytest.raises(Conflict, match=r"cannot be read \(episodes.jsonl, line 2\)"):
        run(asked, Console(quiet=True))
