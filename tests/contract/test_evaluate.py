"""`assay evaluate` on real parts: inference, reward and sandbox over HTTP, weights by folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import Conflict
from assay_shared.runs.run_folder import RunFolder
from assay_shared.runs.run_lock import held
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import CallCase, PromptFormat, Role, Status, Task
from assay_trainer.data.importers.choices import choice_example
from assay_trainer.evaluate.job import EvaluationJob, run_job
from assay_trainer.evaluate.options import protocol_of
from assay_trainer.evaluation.records.folder import StoredEvaluation, read_evaluation
from tests.conftest import Serve
from tests.support.fakes import make_task
from tests.support.policies import TINY, make_policy_folder

CONFIG = TINY.model_copy(update={"context_length": 512})
CASES = tuple(CallCase(function="f", args=(x,), expected=2 * x) for x in (0, 1, 2, 3))
CODE = [
    make_task(f"code{i}", role=Role.TEST, rubric="code.dense", tests=CASES, tags={"level": level})
    for i, level in enumerate(("easy", "easy", "hard", "hard", "hard"))
]
PROGRAMS = {
    "code0": "def f(x):\n    return 2 * x",
    "code1": "def f(x):\n    return 0",
    "code2": "def f(x:",
    "code3": "def f(x):\n    return 2 / x",
    "code4": "def f(x):\n    sum(range(1_000_000))\n    return 1",
}
OPTIONS = ["grass", "the sky"]
CHOICES = [
    choice_example(f"q{i}", "arc", Role.TEST, f"Which is {i}?", OPTIONS, i % 2, {}).task
    for i in range(4)
]


@pytest.fixture(scope="module")
def services(serve_for_all: Serve) -> ServiceSettings:
    """The settings that lead to inference, reward and sandbox."""
    os.environ["ASSAY_SANDBOX_MINIMUM_ISOLATION"] = "fallback"
    sandbox = serve_for_all(create_sandbox(SandboxSettings()))
    reward = serve_for_all(create_reward(RewardSettings(sandbox_url=sandbox)))
    inference = serve_for_all(create_inference(InferenceSettings(inference_weight_roots="/")))
    return ServiceSettings(reward_url=reward, inference_url=inference)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "m"
    make_policy_folder(folder, config=CONFIG)
    return folder


def write_tasks(path: Path, tasks: list[Task]) -> str:
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in tasks))
    return str(path)


def write_answers(path: Path, answers: dict[str, str]) -> Path:
    rows = [
        {"task_id": name, "text": text, "num_tokens": len(text)} for name, text in answers.items()
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def evaluated(
    settings: ServiceSettings, output: Path, sets: list[str], **options: object
) -> StoredEvaluation:
    protocol = protocol_of(None, options.pop("protocol", {}))  # type: ignore[arg-type]
    job = EvaluationJob(sets=sets, output=output, protocol=protocol, **options)  # type: ignore[arg-type]
    assert run_job(job, settings, Console(quiet=True))
    return read_evaluation(output)


def test_stored_programs_get_their_verdicts_metrics_and_log(
    services: ServiceSettings, tmp_path: Path
) -> None:
    sets = [f"code={write_tasks(tmp_path / 'code.jsonl', CODE)}"]
    answers = write_answers(tmp_path / "answers.jsonl", PROGRAMS)

    found = evaluated(services, tmp_path / "out", sets, answers=answers)

    assert found.is_finished
    verdicts = {one.task_id: (one.outcome, one.pass_ratio) for one in found.sets["code"].samples}
    assert verdicts == {
        "code0": (Status.ACCEPTED, 1.0),
        "code1": (Status.WRONG_ANSWER, 0.25),
        "code2": (Status.SYNTAX_ERROR, 0.0),
        "code3": (Status.RUNTIME_ERROR, 0.25),
        "code4": (Status.WRONG_ANSWER, 0.0),
    }
    metrics = json.loads((tmp_path / "out" / "code" / "metrics.json").read_text())
    assert metrics["overall"]["accepted_at_1"]["value"] == pytest.approx(0.2)
    assert metrics["overall"]["code"]["execution_success"]["value"] == pytest.approx(0.6)
    assert metrics["strata"]["level"]["hard"]["num_tasks"] == 3
    assert metrics["overall"]["costs"]["tokens"]["total"] == sum(map(len, PROGRAMS.values()))
    log = (tmp_path / "out" / "qa" / "code.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in log] == [
        "success",
        "wrong_answer",
        "wrong_answer",
        "syntax_error",
        "runtime_error",
    ]
    assert "20.0%" in (tmp_path / "out" / "report.md").read_text()
    assert "20.0%" in (tmp_path / "out" / "report.html").read_text()


def test_a_folder_is_served_by_the_running_service_and_its_numbers_repeat(
    services: ServiceSettings, policy: Path, tmp_path: Path
) -> None:
    sets = [f"code={write_tasks(tmp_path / 'code.jsonl', CODE)}"]
    protocol = {"kind": "sampled", "samples_per_task": 3, "max_tokens": 12, "top_p": 0.9}

    first = evaluated(services, tmp_path / "a", sets, policy=str(policy), protocol=dict(protocol))
    again = evaluated(services, tmp_path / "b", sets, policy=str(policy), protocol=dict(protocol))

    texts = [[one.text for one in found.sets["code"].samples] for found in (first, again)]
    assert len(texts[0]) == 15
    assert texts[0] == texts[1]
    assert first.record.policy.digest == again.record.policy.digest
    assert first.record.engine["engine"] == "transformers"
    assert all(one.startswith("code.dense@") for one in first.sets["code"].facts.scorers)


def test_a_stopped_evaluation_goes_on_where_it_was(
    services: ServiceSettings, tmp_path: Path
) -> None:
    sets = [f"code={write_tasks(tmp_path / 'code.jsonl', CODE)}"]
    answers, output = write_answers(tmp_path / "answers.jsonl", PROGRAMS), tmp_path / "out"
    whole = evaluated(services, output, sets, answers=answers)
    file = output / "code" / "samples.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2]) + lines[2][:40])  # as a kill leaves it
    kept = lines[:2]

    found = evaluated(services, output, sets, answers=answers)

    assert file.read_text().splitlines(keepends=True)[:2] == kept
    assert [one.outcome for one in found.sets["code"].samples] == [
        one.outcome for one in whole.sets["code"].samples
    ]
    assert len(file.read_text().splitlines()) == 5


def test_options_are_read_with_the_same_numbers_by_service_and_by_server(
    services: ServiceSettings, policy: Path, tmp_path: Path
) -> None:
    sets = [f"arc={write_tasks(tmp_path / 'arc.jsonl', CHOICES)}"]
    protocol = {"kind": "likelihood", "prompt_format": "raw"}
    of_folder = evaluated(
        services, tmp_path / "a", sets, policy=str(policy), protocol=dict(protocol)
    )
    of_server = evaluated(
        services,
        tmp_path / "b",
        sets,
        server=f"{services.inference_url}/v1",
        protocol=dict(protocol),
    )

    for one, other in zip(
        of_folder.sets["arc"].samples, of_server.sets["arc"].samples, strict=True
    ):
        assert one.option_logprobs == pytest.approx(other.option_logprobs, abs=1e-4)
        assert one.text == other.text
    by_chat = evaluated(
        services, tmp_path / "c", sets, policy=str(policy), protocol={"kind": "likelihood"}
    )
    assert all(one.option_logprobs for one in by_chat.sets["arc"].samples)


def test_a_server_samples_chats_and_raw_prompts(
    services: ServiceSettings, policy: Path, tmp_path: Path
) -> None:
    raw = [one.model_copy(update={"prompt_format": PromptFormat.RAW}) for one in CODE]
    sets = [
        f"chat={write_tasks(tmp_path / 'chat.jsonl', CODE)}",
        f"raw={write_tasks(tmp_path / 'raw.jsonl', raw)}",
    ]
    evaluated(services, tmp_path / "x", sets[:1], policy=str(policy), protocol={"max_tokens": 8})
    url = f"{services.inference_url}/v1"
    found = evaluated(services, tmp_path / "out", sets, server=url, protocol={"max_tokens": 8})

    for stored in found.sets.values():
        assert all(one.outcome is not None for one in stored.samples)
        assert all(0 < (one.num_tokens or 0) <= 8 for one in stored.samples)
    folder = read_evaluation(tmp_path / "x").sets["chat"].samples
    assert [one.text for one in found.sets["chat"].samples] == [one.text for one in folder]


def test_a_run_that_is_trained_keeps_its_policy(
    services: ServiceSettings, policy: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    make_policy_folder(other, seed=5, config=CONFIG)
    runs = tmp_path / "runs"
    RunFolder.create(runs / "busy")
    sets = [f"code={write_tasks(tmp_path / 'code.jsonl', CODE)}"]
    settings = services.model_copy(update={"runs": runs})

    with (
        held(runs / "busy"),
        pytest.raises(Conflict, match="inference serves the policy of run busy"),
    ):
        evaluated(settings, tmp_path / "out", sets, policy=str(other))
    # The folder of a pipeline is held too, and is not trained.
    (runs / "busy" / "pipeline.json").write_text("{}")
    with held(runs / "busy"):
        protocol = {"max_tokens": 8}
        evaluated(settings, tmp_path / "out", sets, policy=str(other), protocol=protocol)


@pytest.fixture
def slow_answers(tmp_path: Path) -> tuple[str, Path]:
    tasks = [one.model_copy(update={"id": f"{one.id}-{i}"}) for i in range(12) for one in CODE]
    answers = {task.id: PROGRAMS[task.id.partition("-")[0]] for task in tasks}
    return (
        f"code={write_tasks(tmp_path / 'code.jsonl', tasks)}",
        write_answers(tmp_path / "answers.jsonl", answers),
    )


@pytest.mark.slow
def test_a_killed_command_goes_on_where_it_was(
    services: ServiceSettings, slow_answers: tuple[str, Path], tmp_path: Path
) -> None:
    sets, answers = slow_answers
    output = tmp_path / "out"
    file = output / "code" / "samples.jsonl"
    command = [
        *(sys.executable, "-m", "assay_shared.cli", "evaluate", "--answers", str(answers)),
        *("--sets", sets, "--output", str(output), "--concurrency", "2"),
    ]
    environment = os.environ | {"ASSAY_REWARD_URL": services.reward_url}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not file.exists() or file.read_text().count("\n") < 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = file.read_text().splitlines()
    assert 5 <= len(before) < 60

    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "code: 20.0%" in done.stdout
    after = file.read_text().splitlines()
    assert after[: len(before) - 1] == before[:-1]
    assert len(after) == 60
