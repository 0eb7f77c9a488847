"""Stored answers through the real reward service and sandbox, again."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import RewardClient
from assay_shared.errors import Conflict, DatasetError, InvalidInput, NotFound, Unreachable
from assay_shared.runs.run_folder import RunFolder, append_line, write_atomically
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import load_config
from assay_shared.types import (
    CallCase,
    EnvironmentTask,
    Failure,
    FailureClass,
    Group,
    Reward,
    ScoredGroup,
    ScoreRequest,
    Status,
    Task,
    Turn,
    Unscored,
)
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.evaluation.evaluator import EvaluationSample, TaskEvaluation, TaskResult
from assay_trainer.rescore.comparison import RunComparison
from assay_trainer.rescore.rescore import rescore_run
from assay_trainer.rescore.stored_answers import read_stored
from assay_trainer.rollouts.rollout_log import append_rollout, mark_superseded
from assay_trainer.service.record import create_run
from tests.conftest import Serve
from tests.support.fakes import FAILURE, POLICY, make_rollout, make_task, scored
from tests.support.faulty_sandbox import create_faulty_sandbox

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
CODE = make_task(
    "code",
    rubric="code.dense",
    tests=tuple(CallCase(function="f", args=(x,), expected=2 * x) for x in (0, 1, 2)),
)
PROGRAMS = (
    "def f(x):\n    return 2 * x",
    "def f(x):\n    return x",
    "def f(x):\n    return 2 / x - 1",
    "def f(:",
)
SUM = make_task("sum", rubric="math", gold="\\frac{1}{2}", tests=())
VALUES = ("0.5", "so \\boxed{\\frac{2}{4}}", "#### 2", "none")


@pytest.fixture
def broken() -> set[str]:
    """Programs in here make the sandbox fail."""
    return set()


@pytest.fixture
def settings(serve: Serve, broken: set[str]) -> ServiceSettings:
    """With the address of a reward service."""
    behind = serve(create_sandbox(SandboxSettings()))
    fails: Callable[[str], bool] = lambda code: any(word in code for word in broken)  # noqa: E731
    sandbox = serve(create_faulty_sandbox(behind, fails))
    reward = create_reward(
        RewardSettings(sandbox_url=sandbox, reward_retry_budget_s=0.1, reward_answer_cpu_s=60.0)
    )
    return ServiceSettings(reward_url=serve(reward))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create_run(tmp_path / "run", load_config(RunConfig, DEMO))


def store(folder: RunFolder, key: str, task: Task, rewards: dict[str, Reward], scorer: str) -> None:
    group = Group(key=key, task=task, rollouts=tuple(make_rollout(text) for text in rewards))
    line = ScoredGroup(group=group, rewards=tuple(rewards.values()), scorer=scorer, worker="w")
    append_rollout(folder.rollouts, line, 1, 2**30)


async def store_scored(
    folder: RunFolder, url: str, key: str, task: Task, answers: tuple[str, ...]
) -> None:
    """As a rollout worker scores and a trainer stores."""
    async with RewardClient(url) as client:
        response = await client.score(ScoreRequest(task=task, answers=answers))
    store(folder, key, task, dict(zip(answers, response.rewards, strict=True)), response.scorer)


def rescore(
    folder: RunFolder, settings: ServiceSettings, rubric: str | None, output: Path | None = None
) -> tuple[RunComparison, Path]:
    return rescore_run(folder, settings, rubric, output, give_up_after_s=0.2)


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


async def stored_run(folder: RunFolder, settings: ServiceSettings) -> None:
    await store_scored(folder, settings.reward_url, "a", CODE, PROGRAMS)
    await store_scored(folder, settings.reward_url, "b", SUM, VALUES)


@pytest.mark.parametrize("anew", [False, True], ids=["own", "math by name"])
@pytest.mark.slow
async def test_deterministic_verifiers_give_the_very_same_rewards(
    folder: RunFolder, settings: ServiceSettings, anew: bool
) -> None:
    await store_scored(folder, settings.reward_url, "b", SUM, VALUES)
    if not anew:
        await store_scored(folder, settings.reward_url, "a", CODE, PROGRAMS)
    before = contents(folder)
    found, path = await asyncio.to_thread(rescore, folder, settings, "math" if anew else None)
    assert found.all.num_compared == len(VALUES) + (0 if anew else len(PROGRAMS))
    assert found.all.share_changed == 0.0
    assert found.all.advantages is not None
    assert found.all.advantages.largest == 0.0
    assert found.all.groups is not None
    assert found.all.groups.rank_correlation_mean == pytest.approx(1.0)
    rows = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
    assert [row["after"] for row in rows] == [row["before"] for row in rows]
    assert len({row["before"]["value"] for row in rows}) > 1
    after = contents(folder)
    assert {name: after[name] for name in before} == before, "nothing is overwritten"
    assert RunComparison.model_validate_json(path.read_text()) == found
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
async def test_another_rubric_changes_rewards_and_failures_are_counted_apart(
    folder: RunFolder, settings: ServiceSettings, broken: set[str], tmp_path: Path
) -> None:
    await store_scored(folder, settings.reward_url, "a", CODE, PROGRAMS)
    broken.add("2 / x")
    output = tmp_path / "out.json"
    found, path = await asyncio.to_thread(rescore, folder, settings, "code.sparse", output)
    assert path == output
    assert found.all.num_samples == 4
    assert found.all.num_compared == 3
    assert found.all.failures == {"sandbox": 1}
    assert found.all.share_changed == pytest.approx(1 / 3), "a third of the tests is worth nothing"
    assert found.scorers[0].startswith("code.sparse@")
    rows = [json.loads(line) for line in output.with_suffix(".jsonl").read_text().splitlines()]
    assert [row["after"]["value"] for row in rows] == [1.0, 0.0, None, 0.0]


@pytest.mark.slow
async def test_a_rubric_that_does_not_fit_a_task_leaves_its_answers_unscored(
    folder: RunFolder, settings: ServiceSettings
) -> None:
    await stored_run(folder, settings)
    found, _ = await asyncio.to_thread(rescore, folder, settings, "code.dense")
    assert found.all.failures == {"caller": len(VALUES)}
    assert found.failure_examples == {"caller": "task.tests: task sum has no tests to run"}
    assert found.by_scorer[next(n for n in found.by_scorer if n.startswith("math"))].before is None


@pytest.mark.slow
def test_what_cannot_be_done_says_so_before_anything_is_scored(
    folder: RunFolder, settings: ServiceSettings, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="no answers to score"):
        rescore(folder, settings, None)
    store(folder, "a", CODE, {"x": scored(1.0)}, "s")
    with pytest.raises(NotFound, match="--rubric: no rubric is called 'nonsense'"):
        rescore(folder, settings, "nonsense")
    with pytest.raises(InvalidInput, match=r"--output: .*must end in \.json"):
        rescore(folder, settings, None, tmp_path / "out.txt")
    (tmp_path / "out.png").touch()
    with pytest.raises(Conflict, match=r"out\.png exists"):
        rescore(folder, settings, None, tmp_path / "out.json")
    with pytest.raises(Unreachable):
        rescore(folder, ServiceSettings(reward_url="http://127.0.0.1:9"), None)


def test_answers_that_are_not_there_or_not_whole_are_left_out(folder: RunFolder) -> None:
    store(folder, "a", CODE, {"x": scored(1.0), "y": Unscored(failure=FAILURE)}, "s@1")
    mark_superseded(folder.rollouts, 0)  # a resumed run does it again
    store(folder, "a", CODE, {"x": scored(1.0), "y": Unscored(failure=FAILURE)}, "s@1")
    game = CODE.model_copy(
        update={"id": "game", "environment": EnvironmentTask(name="game", instance={})}
    )
    turns = tuple(Turn(start=0, end=1, text=text) for text in ("one", "two"))
    episode = make_rollout("two").model_copy(update={"turns": turns})
    group = Group(key="g", task=game, rollouts=(episode, episode))
    rewards: tuple[Reward, ...] = (scored(1.0), Unscored(failure=FAILURE))
    line = ScoredGroup(group=group, rewards=rewards, scorer="s@1", worker="w")
    append_rollout(folder.rollouts, line, 1, 2**30)
    with folder.rollouts.open("a") as file:
        file.write('{"group": {"key": "half')  # still being written
    samples = [
        EvaluationSample(text="x", outcome=Status.ACCEPTED, reward=1.0),
        EvaluationSample(text="y", outcome=None, failure="judge down"),
        EvaluationSample(text="", outcome=None, failure="inference down"),
    ]
    results = [
        TaskResult(task_id=task_id, prompt="p", tags={}, samples=samples)
        for task_id in ("code", "forgotten")
    ]
    episodes = [
        EvaluationSample(
            text="b", turns=[("a", "go on"), ("b", "")], outcome=Status.ACCEPTED, reward=1.0
        ),
        EvaluationSample(text="b", outcome=Status.ACCEPTED, reward=1.0),
        EvaluationSample(
            text="a", turns=[("a", "go on")], outcome=None, failure="environment down"
        ),
    ]
    results.append(TaskResult(task_id="game", prompt="p", tags={}, samples=episodes))
    evaluation = TaskEvaluation(name="before", policy=POLICY, confidence=0.95, results=results)
    write_atomically(folder.evaluation("before"), evaluation.model_dump_json())
    tasks = (CODE, game)
    write_atomically(folder.tasks, "".join(task.model_dump_json() + "\n" for task in tasks))
    stored = read_stored(folder)
    assert [(one.source, one.answers) for one in stored.groups] == [
        ("rollouts", ("x", "y")),
        ("rollouts", (("one", "two"),)),
        ("before", ("x", "y")),
        ("before", (("a", "b"),)),
    ]
    assert stored.left_out == {
        "superseded": 2,
        "unfinished episode": 2,
        "turns are not kept": 1,
        "no answer": 1,
        "unknown task": 3,
    }


def test_a_group_that_had_no_rewards_can_get_some(folder: RunFolder) -> None:
    failure = Failure(
        failure_class=FailureClass.JUDGE, service="judge", message="down", retryable=True
    )
    group = Group(key="a", task=CODE, rollouts=(make_rollout("x"),))
    line = ScoredGroup(group=group, failure=failure, worker="w")
    append_rollout(folder.rollouts, line, 1, 2**30)
    (stored,) = read_stored(folder).groups
    assert [mark.value for mark in stored.marks] == [None]


def test_a_line_that_cannot_be_read_is_named(folder: RunFolder) -> None:
    store(folder, "a", CODE, {"x": scored(1.0)}, "s")
    append_line(folder.rollouts, '{"group": 1}')
    with pytest.raises(DatasetError, match=r"rollouts\.jsonl:2"):
        read_stored(folder)
