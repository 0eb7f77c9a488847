"""From stored answers to DPO on real parts: reward, sandbox and judge over HTTP."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import DatasetError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import CallCase, Role
from assay_trainer.config import DPOConfig
from assay_trainer.data.preferences import open_preferences
from assay_trainer.evaluate.job import EvaluationJob, run_job
from assay_trainer.evaluate.options import protocol_of
from assay_trainer.events import DPOMeasured
from assay_trainer.learner.given_rows.callbacks import StageAttempt
from assay_trainer.learner.given_rows.dpo import pair_token_ids, train_dpo
from assay_trainer.learner.network.model import create_policy
from assay_trainer.pairs.checking import CheckOrder, check_pairs
from assay_trainer.pairs.making import make_pairs
from assay_trainer.pairs.options import CheckedBy, PairsPerPrompt
from assay_trainer.pairs.order import ChoiceOrder, PairsOrder
from assay_trainer.stop import Stop
from assay_trainer.table_source import ImportedSource, PreferenceFile
from tests.conftest import Serve
from tests.support.fakes import make_task
from tests.support.policies import TEXTS, TINY
from tests.support.upstream import Upstream, says

CASES = tuple(CallCase(function="f", args=(x,), expected=2 * x) for x in (0, 1, 2, 3))
TASKS = [
    make_task(
        f"code{number}",
        role=Role.TRAIN,
        prompt=f"Write f(x), case {number}: two times x.",
        rubric="code.dense",
        tests=CASES,
    )
    for number in range(8)
]
#: A right program, one with one test of four, one that does not parse, and one that fails.
PROGRAMS = (
    "def f(x):\n    return 2 * x",
    "def f(x):\n    return 0",
    "def f(x: this does not parse",
    "def f(x):\n    return 2 / x - missing",
)


@pytest.fixture
def services(serve: Serve) -> ServiceSettings:
    os.environ["ASSAY_SANDBOX_MINIMUM_ISOLATION"] = "fallback"
    sandbox = serve(create_sandbox(SandboxSettings()))
    reward = serve(create_reward(RewardSettings(sandbox_url=sandbox)))
    return ServiceSettings(reward_url=reward)


@pytest.fixture
def evaluation(services: ServiceSettings, tmp_path: Path) -> Path:
    """Eight training tasks with four answers each, scored by the real services."""
    tasks, answers = tmp_path / "tasks.jsonl", tmp_path / "answers.jsonl"
    tasks.write_text("".join(f"{one.model_dump_json()}\n" for one in TASKS))
    rows = [
        {"task_id": task.id, "text": text, "num_tokens": len(text)}
        for task in TASKS
        for text in PROGRAMS
    ]
    answers.write_text("".join(json.dumps(one) + "\n" for one in rows))
    protocol = protocol_of(None, {"kind": "sampled", "samples_per_task": 4})
    job = EvaluationJob(
        sets=[f"code={tasks}"],
        output=tmp_path / "evaluation",
        protocol=protocol,
        answers=answers,
        allow_train=True,
    )
    assert run_job(job, services, Console(quiet=True))
    return tmp_path / "evaluation"


def with_judge(
    serve: Serve, services: ServiceSettings, folder: Path, says_of: Callable[[str], str]
) -> ServiceSettings:
    """Return settings with a judge whose model gets the prompt and names the better place."""

    def reply(asked: Any) -> dict[str, object]:
        prompt = str(asked["messages"][-1]["content"])
        return says(json.dumps({"reason": "planted", "better": says_of(prompt)}))

    url = serve(Upstream(reply).app)
    provider = {"kind": "openai", "name": "planted", "base_url": f"{url}/v1", "model": "m"}
    config = folder / "judge.yaml"
    config.write_text(yaml.safe_dump({"chain": [provider]}))
    judge = serve(create_judge(JudgeSettings(judge_config=config)))
    return services.model_copy(update={"judge_url": judge})


def prefers_right(prompt: str) -> str:
    """Return the place of the right program."""
    right, wrong = prompt.find("return 2 * x"), prompt.find("return 2 / x")
    wrong = wrong if wrong >= 0 else max(prompt.find("return 0"), prompt.find("not parse"))
    return "FIRST" if right < wrong else "SECOND"


def make(evaluation: Path, output: Path, services: ServiceSettings, **values: Any) -> Any:
    choice = ChoiceOrder(per_prompt=PairsPerPrompt.ALL_BUT_ONE)
    return make_pairs(PairsOrder((evaluation,), output, choice, **values), services)


def swap(source: Path, output: Path) -> Path:
    """Write the pairs of a folder with every label swapped."""
    rows = [json.loads(line) for line in (source / "preferences.jsonl").read_text().splitlines()]
    for row in rows:
        row["chosen"], row["rejected"] = row["rejected"], row["chosen"]
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return output


@pytest.mark.slow
def test_scored_answers_become_pairs_that_dpo_learns(
    evaluation: Path, services: ServiceSettings, tmp_path: Path
) -> None:
    found = make(evaluation, tmp_path / "pairs", services)
    assert found.numbers["pairs_by_type"] == {
        "runtime_error": 8,
        "syntax_error": 8,
        "wrong_answer": 8,
    }
    pairs = open_preferences(ImportedSource(kind="imported", path=tmp_path / "pairs"))
    assert {one.chosen for one in pairs} == {PROGRAMS[0]}

    model, tokenizer = create_policy(TINY, [*TEXTS, *PROGRAMS, TASKS[0].prompt], 0)
    ids = [one for one in pair_token_ids(pairs, model, tokenizer, 512) if one is not None]
    assert len(ids) == 24
    measured: list[DPOMeasured] = []
    config = DPOConfig(
        data=PreferenceFile(kind="jsonl", path=Path("unused.jsonl")),
        epochs=3,
        batch_size=6,
        learning_rate=1e-3,
        warmup_steps=0,
    )
    attempt = StageAttempt(0, tmp_path / "checkpoints", Stop())
    train_dpo(
        model, tokenizer, ids[:18], config, attempt, lambda _: None, measured.append, ids[18:]
    )
    interval = measured[-1].margin_interval
    assert interval is not None
    assert interval.low > 0


@pytest.mark.slow
def test_swapped_labels_are_found_by_rewards_and_by_a_judge(
    evaluation: Path, services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    make(evaluation, tmp_path / "pairs", services)
    swapped = swap(tmp_path / "pairs", tmp_path / "swapped.jsonl")
    judged = with_judge(serve, services, tmp_path, prefers_right)
    tasks = str(tmp_path / "tasks.jsonl")
    for by in (CheckedBy.REWARD, CheckedBy.JUDGE):
        own = tasks if by is CheckedBy.REWARD else None
        good, bad = (
            check_pairs(CheckOrder(one, tmp_path / f"{by}{at}", by, tasks=own), judged)
            for at, one in enumerate((tmp_path / "pairs", swapped))
        )
        assert good["label_agreement"]["value"] == 1, by
        assert bad["label_agreement"]["value"] == 0, by
        # What a gate of `at_least: 0.8` decides by.
        assert good["label_agreement"]["low"] > 0.8 > bad["label_agreement"]["high"], by


@pytest.mark.slow
def test_pairs_that_the_judge_does_not_prefer_in_both_orders_are_left_out(
    evaluation: Path, services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    def doubts_zero(prompt: str) -> str:
        """Return the right place, but the first one if an answer is the constant 0."""
        return "FIRST" if re.search(r"return 0\b", prompt) else prefers_right(prompt)

    judged = with_judge(serve, services, tmp_path, doubts_zero)
    found = make(evaluation, tmp_path / "pairs", judged, judge=True)
    assert found.numbers["judged"] == {"agrees": 16, "disagrees": 0, "undecided": 8, "failed": 0}
    assert found.numbers["pairs_by_type"] == {"runtime_error": 8, "syntax_error": 8}
    assert found.numbers["dropped"] == {"judge": 8}


@pytest.mark.slow
def test_a_judge_that_takes_the_first_place_is_reported(
    evaluation: Path, services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    make(evaluation, tmp_path / "pairs", services)
    judged = with_judge(serve, services, tmp_path, lambda _: "FIRST")
    order = CheckOrder(tmp_path / "pairs", tmp_path / "checked", CheckedBy.JUDGE)
    numbers = check_pairs(order, judged)
    assert numbers["first_choice"]["value"] == 1
    assert numbers["first_choice"]["low"] > 0.8
    assert numbers["label_agreement"] is None
    assert numbers["undecided"]["value"] == 1


@pytest.mark.slow
def test_a_judge_without_verdicts_leaves_no_pair(
    evaluation: Path, services: ServiceSettings, serve: Serve, tmp_path: Path
) -> None:
    judged = with_judge(serve, services, tmp_path, lambda _: "BOTH")
    with pytest.raises(DatasetError, match="no pair is left: 24 judge"):
        make(evaluation, tmp_path / "pairs", judged, judge=True)
