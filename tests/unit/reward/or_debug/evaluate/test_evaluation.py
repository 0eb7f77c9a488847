"""The same evaluator for baselines and served policies: the same episodes, the same metrics."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, HTTPException
from rich.console import Console

from assay_reward.or_debug.dataset.tasks import to_task
from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.or_debug.evaluate.baselines import baseline
from assay_reward.or_debug.evaluate.evaluation import (
    EpisodeRecord,
    EvaluationPlan,
    evaluate,
    play,
    read_tasks,
    with_max_turns,
)
from assay_reward.or_debug.evaluate.intervals import TargetVerdict
from assay_reward.or_debug.evaluate.policy import RemotePolicy
from assay_reward.or_debug.evaluate.report import FIGURES, markdown
from assay_reward.or_debug.evaluate.run import EvaluationRun, run
from assay_reward.or_debug.evaluate.summary import OVERALL, summarise
from assay_shared.cli import main
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, DatasetError, InvalidInput
from assay_shared.types import (
    FailureClass,
    GenerateRequest,
    GenerateResponse,
    Role,
    SamplingParams,
    Task,
)
from tests.conftest import Serve
from tests.support.fakes import FAILURE, make_completion, make_task
from tests.support.or_debug.planted import HARD, INSTANCE, REPAIR, make_or_task


def tagged(number: int, difficulty: str = "easy", role: Role = Role.TEST) -> Task:
    task = make_or_task(INSTANCE.model_copy(update={"id": f"p{number}"}))
    return task.model_copy(
        update={"role": role, "tags": {"error_type": "A", "difficulty": difficulty}}
    )


def episode(
    rr5: float, difficulty: str = "easy", failed: bool = False, task: int = 0
) -> EpisodeRecord:
    return EpisodeRecord(
        policy="p",
        task_id=f"{difficulty}{task}",
        cell=f"A/{difficulty}",
        difficulty=difficulty,
        sample=0,
        turns=("x",),
        metrics={} if failed else {"rr@5": rr5, "faithful": 0.0},
        failure=FAILURE if failed else None,
    )


@pytest.fixture(scope="module")
def players() -> Iterator[ReplayPool]:
    players = ReplayPool(solve_timeout_s=5.0)
    yield players
    players.close()


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """Two cells of two test tasks, and a training task."""
    for cell, tasks in {
        "type_A_easy": [tagged(1), tagged(2), tagged(3, role=Role.TRAIN)],
        "type_A_hard": [tagged(4, "hard"), tagged(5, "hard")],
    }.items():
        (tmp_path / cell).mkdir()
        lines = (task.model_dump_json() + "\n" for task in tasks)
        (tmp_path / cell / "tasks.jsonl").write_text("".join(lines))
    return tmp_path


def served_policy(*replies: str) -> FastAPI:
    """An inference service with these replies in turn, by the length of the talk."""
    app = FastAPI()

    @app.post("/v1/generate")
    async def generate(request: GenerateRequest) -> GenerateResponse:
        assert request.messages is not None
        roles = [message.role for message in request.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        reply = replies[len(roles) // 2]
        return GenerateResponse(prompt_token_ids=(1,), completions=(make_completion(reply),))

    return app


# Playing


async def test_a_served_policy_plays_whole_episodes(serve: Serve, players: ReplayPool) -> None:
    """An earlier evaluation had single turns; its step counts never changed."""
    async with InferenceClient(serve(served_policy(*REPAIR)), retry=NO_RETRY) as client:
        policy = RemotePolicy("served", client, SamplingParams(temperature=0.0))
        record = await play(tagged(1), policy, players, 0)
    assert record.turns == REPAIR
    assert record.metrics["faithful"] == 1.0
    assert record.metrics["steps"] == 3.0
    assert (record.num_tokens, record.metrics["tokens"]) == (6, 6.0)
    assert record.metrics["claim_irreducible"] == 0.0


async def test_a_baseline_and_a_served_policy_that_say_the_same_get_the_same(
    serve: Serve, players: ReplayPool
) -> None:
    said = ("Action: DROP(c1)", "Action: SUBMIT(c1)")
    async with InferenceClient(serve(served_policy(*said)), retry=NO_RETRY) as client:
        remote = await play(tagged(1), RemotePolicy("r", client, SamplingParams()), players, 0)
    built_in = await play(tagged(1), baseline("first_row"), players, 0)
    assert remote.turns == built_in.turns
    assert remote.metrics | {"tokens": 0.0} == built_in.metrics


@pytest.mark.rule("a solver out of time is a failure and never a score")
async def test_a_solver_fault_is_a_failure_of_the_sample_and_no_miss() -> None:
    players = ReplayPool(solve_timeout_s=0.05)
    try:
        record = await play(make_or_task(HARD), baseline("first_row"), players, 0)
    finally:
        players.close()
    assert record.metrics == {}
    assert record.failure is not None
    assert record.failure.failure_class is FailureClass.NETWORK


async def test_a_policy_that_is_down_is_no_miss_either(players: ReplayPool) -> None:
    async with InferenceClient("http://127.0.0.1:9", retry=NO_RETRY) as client:
        record = await play(tagged(1), RemotePolicy("r", client, SamplingParams()), players, 0)
    assert record.failure is not None
    assert record.metrics == {}


async def test_a_full_context_ends_the_episode_with_what_was_said(
    serve: Serve, players: ReplayPool
) -> None:
    app = FastAPI()

    @app.exception_handler(InvalidInput)
    async def refuse(_: object, error: InvalidInput) -> object:
        from fastapi.responses import JSONResponse

        from assay_shared.errors import to_body

        return JSONResponse(to_body(error, "inference", None).model_dump(mode="json"), 422)

    @app.post("/v1/generate")
    async def generate(request: GenerateRequest) -> GenerateResponse:
        if len(request.messages or ()) > 1:
            raise InvalidInput("no room", field="sampling.max_tokens")
        completion = make_completion("Action: DROP(c3)")
        return GenerateResponse(prompt_token_ids=(1,), completions=(completion,))

    async with InferenceClient(serve(app), retry=NO_RETRY) as client:
        record = await play(tagged(1), RemotePolicy("r", client, SamplingParams()), players, 0)
    assert record.failure is None
    assert record.metrics["faithful"] == 1.0


async def test_a_request_that_the_service_refuses_is_a_failure(
    serve: Serve, players: ReplayPool
) -> None:
    app = FastAPI()

    @app.post("/v1/generate")
    async def generate() -> None:
        raise HTTPException(400, "no room")

    async with InferenceClient(serve(app), retry=NO_RETRY) as client:
        record = await play(tagged(1), RemotePolicy("r", client, SamplingParams()), players, 0)
    assert record.failure is not None
    assert record.failure.failure_class is FailureClass.CALLER


async def test_episodes_are_played_side_by_side_and_come_back_in_order(players: ReplayPool) -> None:
    seen: list[EpisodeRecord] = []
    tasks = [tagged(number) for number in range(4)]
    plan = EvaluationPlan(samples=2, concurrency=3)
    records = await evaluate(tasks, baseline("drop_random_member"), players, plan, seen.append)
    assert [(r.task_id, r.sample) for r in records] == [
        (f"p{number}", sample) for number in range(4) for sample in range(2)
    ]
    assert len(seen) == 8


# Tasks


def test_tasks_are_chosen_by_role_and_cell(benchmark: Path) -> None:
    assert [task.id for task in read_tasks(benchmark, Role.TEST, None)] == ["p1", "p2", "p4", "p5"]
    assert [task.id for task in read_tasks(benchmark, Role.TEST, 1)] == ["p1", "p4"]
    assert len(read_tasks(benchmark, None, None)) == 5


@pytest.mark.rule("every cell of a benchmark is full, or nothing is made or measured")
@pytest.mark.parametrize("empty", [True, False])
def test_a_missing_or_empty_cell_is_an_error_and_never_skipped(
    benchmark: Path, empty: bool
) -> None:
    """An earlier curriculum warned of missing files, and trained on a single type."""
    (benchmark / "type_A_medium").mkdir()
    if empty:
        (benchmark / "type_A_medium" / "tasks.jsonl").touch()
    with pytest.raises(DatasetError, match="type_A_medium.*(no tasks|no such file)"):
        read_tasks(benchmark, None, None)


def test_a_cell_without_tasks_of_the_role_is_an_error_too(benchmark: Path) -> None:
    with pytest.raises(DatasetError, match="type_A_easy.*no tasks of role validation"):
        read_tasks(benchmark, Role.VALIDATION, None)


def test_cells_with_the_same_task_are_refused(benchmark: Path) -> None:
    cell = benchmark / "type_A_medium"
    cell.mkdir()
    (cell / "tasks.jsonl").write_text(tagged(1, "medium").model_dump_json() + "\n")
    with pytest.raises(DatasetError, match="type_A_medium.*another cell has a task 'p1'"):
        read_tasks(benchmark, None, None)


@pytest.mark.parametrize("line", ["{}", make_task().model_dump_json()])
def test_a_line_that_cannot_be_played_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(f"{tagged(1).model_dump_json()}\n{line}\n")
    with pytest.raises(DatasetError, match="tasks.jsonl:2"):
        read_tasks(tmp_path, None, None)


def test_another_number_of_turns_is_told_in_the_prompt_too() -> None:
    task = to_task(INSTANCE, Role.TEST, max_turns=8)
    longer = with_max_turns(task, 12)
    assert "You have 12 replies" in longer.prompt
    assert longer.environment is not None
    assert longer.environment.max_turns == 12
    assert longer == to_task(INSTANCE, Role.TEST, max_turns=12)
    assert with_max_turns(task, None) == task


# Summary


def test_failures_are_in_no_mean_and_counted_beside() -> None:
    records = [episode(1.0), episode(0.0, task=1), episode(1.0, failed=True, task=2)]
    found = summarise("p", records).of("p", OVERALL)
    assert found is not None
    assert (found.num_episodes, found.num_failed) == (3, 1)
    assert found.metrics["rr@5"].mean == 0.5
    assert found.metrics["rr@5"].n == 2


def test_episodes_of_a_task_count_as_one_observation() -> None:
    once = [episode(float(at % 2), task=at) for at in range(12)]
    often = [one for one in once for _ in range(20)]
    found = [summarise("p", some).of("p", OVERALL) for some in (once, often)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].metrics == found[1].metrics


def test_difficulty_is_checked_against_its_targets() -> None:
    """An earlier benchmark was harder in its easy part, and nothing said so."""
    records = [episode(1.0, "easy", task=at) for at in range(100)]
    records += [episode(1.0, "medium", task=at) for at in range(100)]
    records += [episode(float(at % 2), "hard", task=at) for at in range(10)]
    findings = {check.difficulty: check.finding for check in summarise("p", records).gradient}
    assert findings == {
        "easy": TargetVerdict.PASS,
        "medium": TargetVerdict.FAIL,
        "hard": TargetVerdict.INCONCLUSIVE,
    }


@pytest.mark.parametrize(
    ("value", "finding"), [(0.0, TargetVerdict.FAIL), (1.0, TargetVerdict.PASS)]
)
def test_a_finding_of_difficulty_does_not_rest_on_failed_episodes(
    value: float, finding: TargetVerdict
) -> None:
    """Most of a server's episodes failed, and the few results looked decisive."""
    played = [episode(value, task=at) for at in range(100)]
    failed = [episode(0.0, failed=True, task=at) for at in range(100, 2000)]
    (check, *_) = summarise("p", played).gradient
    assert check.finding is finding
    (check, *_) = summarise("p", played + failed).gradient
    assert check.finding is TargetVerdict.INCONCLUSIVE
    assert check.found is not None
    assert check.found.mean == value


def test_a_difficulty_without_a_result_is_not_measured() -> None:
    found = summarise("p", [episode(1.0, failed=True), episode(1.0, "medium")])
    assert [check.told for check in found.gradient] == [
        "not measured: no easy episode has a result",
        "INCONCLUSIVE",
        "not measured: no hard tasks",
    ]
    assert "| hard | 30% to 50% |  | not measured: no hard tasks |" in markdown(found)


# The whole run


@pytest.mark.slow
def test_a_run_leaves_a_report_with_the_baselines_beside_the_policy(
    benchmark: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    asked = EvaluationRun(
        data=benchmark, policy="probe", output=output, plan=EvaluationPlan(concurrency=4)
    )
    evaluation = run(asked, Console(quiet=True))
    report = (output / "report.md").read_text()
    assert report == markdown(evaluation)
    assert "| cell | probe | constant | drop_all_members |" in report
    assert all((output / name).read_bytes().startswith(b"\x89PNG") for name in FIGURES)
    content = json.loads((output / "evaluation.json").read_text())
    assert content["evaluation"] == evaluation.model_dump(mode="json")
    assert len((output / "episodes.jsonl").read_text().splitlines()) == 4 * 8
    assert evaluation.cell_names == ["A/easy", "A/hard", OVERALL]


def test_the_command_evaluates(
    benchmark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    arguments = ["or-debug", "evaluate", str(benchmark), "--policy", "submit_at_once"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--output", str(output), "--no-baselines", "--role", "all"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "easy: RR@5 of 90% to 100%: FAIL" in printed
    assert "medium: not measured: no medium tasks" in printed
    assert (output / "report.md").exists()
    episodes = (output / "episodes.jsonl").read_bytes()
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--output", str(output), "--no-baselines"])
    assert ended.value.code == 3
    told = " ".join(capsys.readouterr().err.split())
    assert 'out has an evaluation with other options: tasks: "' in told
    assert 'role: null, not "test" (choose another folder)' in told
    assert (output / "episodes.jsonl").read_bytes() == episodes


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--role", "exam"], "no role is called 'exam'"), (["--policy", "gpt"], "'gpt' is neither")],
)
def test_a_wrong_option_is_one_line(
    benchmark: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    given = ["--policy", "probe", "--output", str(tmp_path / "out"), *options]
    with pytest.raises(SystemExit) as ended:
        main(["or-debug", "evaluate", str(benchmark), *given])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_unknown_policy_is_named_with_those_there_are(benchmark: Path, tmp_path: Path) -> None:
    asked = EvaluationRun(data=benchmark, policy="gpt", output=tmp_path / "out")
    with pytest.raises(ConfigError, match="baselines: constant, drop_all_members"):
        run(asked, Console(quiet=True))
