"""`assay data instructions` on real parts: inference, reward and judge, and real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_shared.clients import RetryBudget
from assay_shared.errors import BudgetExceeded, Conflict, DatasetError, InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.data_commands.command import app
from assay_trainer.demonstrations.instructions.operation import (
    InstructionsOrder,
    make_instructions,
)
from assay_trainer.evaluate.answers import sources
from tests.conftest import Serve, wait_until
from tests.support.policies import TINY, make_policy_folder
from tests.support.scripted_model import CRITIQUE, REVISION, ScriptedModel
from tests.support.upstream import Upstream, says, verdict

QUIET = Console(quiet=True)
SEEDS = [
    {"instruction": f"Name {n} rivers of {where}.", "response": f"The rivers of {where} are {n}."}
    for n, where in enumerate(("Chile", "Norway", "Kenya", "Japan", "Peru"), start=2)
]
LONG_SEED = "Describe how the tall white lighthouse at the northern end of the bay was built."
SEEDS.append({"instruction": LONG_SEED, "response": "Stone by stone."})
PRINCIPLES = [
    {"name": "first", "critique_request": CRITIQUE, "revision_request": REVISION},
    {"name": "second", "critique_request": CRITIQUE, "revision_request": REVISION},
]


def of_judge(asked: dict[str, Any]) -> object:
    """Return the judge's reply: no verdict on what says so, and INCORRECT on what is wrong."""
    text = json.dumps(asked)
    if "undecidable" in text:
        return says("")
    return verdict("INCORRECT" if "plainly wrong" in text else "CORRECT")


@pytest.fixture(scope="module")
def services(serve_for_all: Serve, tmp_path_factory: pytest.TempPathFactory) -> ServiceSettings:
    """The settings that lead to reward, judge and inference."""
    llm = serve_for_all(Upstream(of_judge).app)
    chain = tmp_path_factory.mktemp("judge") / "judge.yaml"
    one = {"kind": "openai", "name": "llm", "base_url": f"{llm}/v1", "model": "m", "attempts": 2}
    chain.write_text(yaml.safe_dump({"chain": [one]}))
    judge = serve_for_all(create_judge(JudgeSettings(judge_config=chain)))
    reward = serve_for_all(create_reward(RewardSettings(judge_url=judge)))
    inference = serve_for_all(create_inference(InferenceSettings(inference_weight_roots="/")))
    return ServiceSettings(reward_url=reward, judge_url=judge, inference_url=inference)


def write_file(folder: Path, url: str | None = None, **values: Any) -> Path:
    """Write a file with seeds and a constitution next to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "seeds.jsonl").write_text("".join(json.dumps(one) + "\n" for one in SEEDS))
    (folder / "constitution.yaml").write_text(yaml.safe_dump({"principles": PRINCIPLES}))
    content = {"name": "made", "seeds": "seeds.jsonl"} | values
    if url is not None:
        content["server"] = {"url": f"{url}/v1", "timeout_s": 20.0}
    path = folder / "made.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def rows_of(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "rows.jsonl").read_text().splitlines()]


def overall(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "metrics.json").read_text())["overall"]
    return found


def test_fewer_instructions_than_wanted_are_told(
    serve: Serve, services: ServiceSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(ScriptedModel().app)
    plan = {"wanted": 50, "max_requests": 4}
    file = write_file(tmp_path / "in", url, invention=plan, scoring=None)
    out = tmp_path / "out"
    app(["instructions", str(file), "--output", str(out)], standalone_mode=False)
    assert "12 of 50 new instructions after 4 requests" in capsys.readouterr().out


def test_repeated_instructions_are_made_once(
    serve: Serve, services: ServiceSettings, tmp_path: Path
) -> None:
    copy = "Explain why the sea near Bergen is salty and cold in winter."
    near = "Explain why the sea near Bergen is salty and cold in summer."
    url = serve(ScriptedModel([copy, near]).app)
    file = write_file(tmp_path / "in", url, invention={"wanted": 20, "round_requests": 3})
    out = tmp_path / "out"
    make_instructions(InstructionsOrder(file, out), services, QUIET)
    made = [row["instruction"] for row in rows_of(out)]
    assert len(made) == len(set(made))
    assert copy in made
    assert near not in made
    left_out = overall(out)["left_out"]["instruction"]
    assert left_out["same_instruction"] >= 1
    assert left_out["near_instruction"] >= 1


def killed_and_again(
    command: list[str], environment: dict[str, str], output: Path, kills: list[int]
) -> str:
    """Kill the command with SIGKILL after each number of lines in the ledger, then let it end."""
    ledger = output / "ledger.jsonl"
    for wanted in kills:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while not ledger.exists() or ledger.read_bytes().count(b"\n") < wanted:
            assert time.monotonic() < deadline
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.nightly
@pytest.mark.slow
def test_a_killed_command_asks_for_nothing_twice_and_makes_the_same_rows(
    serve: Serve, services: ServiceSettings, tmp_path: Path
) -> None:
    model = ScriptedModel(delay_s=0.05)
    file = write_file(
        tmp_path / "in",
        serve(model.app),
        invention={"wanted": 24, "round_requests": 4},
        revision={"constitution": "constitution.yaml", "pairs": True},
    )
    environment = os.environ | {"ASSAY_REWARD_URL": services.reward_url}
    words = [sys.executable, "-m", "assay_shared.cli", "data", "instructions", str(file)]
    words += ["--concurrency", "4", "--output"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    killed_and_again([*words, str(whole)], environment, whole, [])
    once = sum(model.asked.values())
    model.asked.clear()
    told = killed_and_again([*words, str(killed)], environment, killed, [3, 20, 40, 70, 95])

    names = ("tasks.jsonl", "rows.jsonl", "demonstrations.jsonl", "left_out.jsonl", "metrics.json")
    for name in (*names, "preferences/preferences.jsonl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    lines = [json.loads(one) for one in (killed / "ledger.jsonl").read_text().splitlines()]
    assert len(lines) == len({one["key"] for one in lines})
    assert "24 rows in" in told
    again = sum(model.asked.values()) - once
    assert 0 <= again <= 5 * 4, "a kill costs the requests in flight alone"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_says_so_and_resumes(
    serve: Serve, services: ServiceSettings, tmp_path: Path, number: signal.Signals
) -> None:
    url = serve(ScriptedModel(delay_s=0.05).app)
    file = write_file(tmp_path / "in", url, invention={"wanted": 24, "round_requests": 2})
    out = tmp_path / "out"
    words = [sys.executable, "-m", "assay_shared.cli", "data", "instructions", str(file)]
    words += ["--concurrency", "2", "--output", str(out)]
    environment = os.environ | {"ASSAY_REWARD_URL": services.reward_url}
    process = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ledger = out / "ledger.jsonl"
    wait_until(lambda: ledger.exists() and ledger.read_bytes().count(b"\n") >= 6, "replies", 200)
    process.send_signal(number)
    _, told = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "stopped; the same command continues" in told
    assert "Traceback" not in told
    assert "24 rows in" in killed_and_again(words, environment, out, [])


def test_a_folder_that_is_whole_is_left_as_it_is(
    serve: Serve, services: ServiceSettings, tmp_path: Path
) -> None:
    model = ScriptedModel()
    file = write_file(tmp_path / "in", serve(model.app), invention={"wanted": 3})
    out = tmp_path / "out"
    first = make_instructions(InstructionsOrder(file, out), services, QUIET)
    num_asked = sum(model.asked.values())
    assert make_instructions(InstructionsOrder(file, out), services, QUIET) == first
    assert sum(model.asked.values()) == num_asked
    changed = InstructionsOrder(file, out, ("seed=7",))
    with pytest.raises(Conflict, match="was begun with another seed"):
        make_instructions(changed, services, QUIET)
    (tmp_path / "in" / "seeds.jsonl").write_text(json.dumps(SEEDS[0]) + "\n")
    with pytest.raises(Conflict, match="was begun with another seeds"):
        make_instructions(InstructionsOrder(file, out), services, QUIET)
    with pytest.raises(InvalidInput, match="and no instructions"):
        make_instructions(InstructionsOrder(file, tmp_path / "in"), services, QUIET)


@pytest.mark.slow
def test_a_server_that_is_down_costs_nothing_but_time(
    serve: Serve,
    services: ServiceSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "RETRY", RetryBudget(attempts=2, total_s=1.0))
    model = ScriptedModel()
    model.is_down = True
    file = write_file(tmp_path / "in", serve(model.app), invention={"wanted": 6})
    out = tmp_path / "out"
    with pytest.raises(BudgetExceeded, match="requests .* no reply"):
        make_instructions(InstructionsOrder(file, out), services, QUIET)
    assert not (out / "manifest.json").exists()
    model.is_down = False
    assert make_instructions(InstructionsOrder(file, out), services, QUIET).count == 6


@pytest.mark.slow
def test_a_request_that_always_fails_is_left_out_on_demand(
    serve: Serve,
    services: ServiceSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "RETRY", RetryBudget(attempts=2, total_s=1.0))
    failing: set[str] = set()

    def answer(instruction: str) -> str | int:
        if not failing:
            failing.add(instruction)
        return 500 if instruction in failing else f"An answer to: {instruction}"

    url = serve(ScriptedModel(answer=answer).app)
    file = write_file(tmp_path / "in", url, invention={"wanted": 6})
    out = tmp_path / "out"
    with pytest.raises(BudgetExceeded, match="1 of 6 requests have no reply"):
        make_instructions(InstructionsOrder(file, out), services, QUIET)
    order = InstructionsOrder(file, out, skip_failed=True)
    assert make_instructions(order, services, QUIET).count == 5
    assert overall(out)["left_out"]["answer"] == {"request_failed": 1}


def test_requests_that_are_all_refused_end_the_command(
    serve: Serve, services: ServiceSettings, tmp_path: Path
) -> None:
    model = ScriptedModel(answer=lambda _: 404)
    file = write_file(
        tmp_path / "in",
        serve(model.app),
        seeds=None,
        invention={"wanted": 0},
        tasks=["tasks.jsonl"],
        scoring=None,
    )
    rows = [
        {"id": f"t{n}", "dataset": "t", "role": "train", "prompt": f"Say {n}.", "rubric": "qa"}
        for n in range(20)
    ]
    lines = "".join(json.dumps(one) + "\n" for one in rows)
    (tmp_path / "in" / "tasks.jsonl").write_text(lines)
    with pytest.raises(InvalidInput, match="the first 8 requests failed alike"):
        make_instructions(InstructionsOrder(file, tmp_path / "out"), services, QUIET)


def test_given_tasks_are_verified_by_their_own_rubric(
    serve: Serve, services: ServiceSettings, tmp_path: Path
) -> None:
    """Of several answers to a task, only one that its rubric accepts becomes a row."""
    model = ScriptedModel(answer=lambda text: "It is 5." if "2 + 3" in text else "It is 9.")
    file = write_file(
        tmp_path / "in",
        serve(model.app),
        seeds=None,
        invention={"wanted": 0},
        tasks=["tasks.jsonl"],
        answers={"samples": 2},
    )
    rows = [
        {
            "id": f"t{n}",
            "dataset": "t",
            "role": "train",
            "prompt": f"What is {n} + 3?",
            "rubric": "math",
            "reference": str(n + 3),
        }
        for n in (2, 4)
    ]
    lines = "".join(json.dumps(one) + "\n" for one in rows)
    (tmp_path / "in" / "tasks.jsonl").write_text(lines)
    out = tmp_path / "out"
    make_instructions(InstructionsOrder(file, out), services, QUIET)
    (row,) = rows_of(out)
    assert (row["id"], row["response"], row["record"]["source"]) == ("t2", "It is 5.", "given")
    assert overall(out)["left_out"]["answer"] == {"low_score": 2, "not_the_best": 1}


def test_seeds_with_a_test_prompt_or_a_control_token_are_left_out(
    serve: Serve, services: ServiceSettings, data_folder: Path, tmp_path: Path
) -> None:
    line = (data_folder / "gsm8k" / "test.jsonl").read_text().splitlines()[0]
    bad = [json.loads(line)["question"], "Say <|im_end|> aloud, please."]
    url = serve(ScriptedModel().app)
    file = write_file(tmp_path / "in", url, invention={"wanted": 2})
    seeds = tmp_path / "in" / "seeds.jsonl"
    good = seeds.read_text()
    seeds.write_text("".join(json.dumps({"instruction": one}) + "\n" for one in bad))
    with pytest.raises(DatasetError, match="no seeds that can be used"):
        make_instructions(InstructionsOrder(file, tmp_path / "bad"), services, QUIET)
    seeds.write_text(seeds.read_text() + good)
    out = tmp_path / "out"
    manifest = make_instructions(InstructionsOrder(file, out), services, QUIET)
    assert manifest.made is not None
    assert (manifest.made["num_seeds"], manifest.made["num_seeds_left_out"]) == (6, 2)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "m"
    make_policy_folder(folder, config=TINY.model_copy(update={"context_length": 1024}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("form", ["raw", "chat"])
def test_a_real_policy_answers_and_raw_prompts_reach_it_as_they_are(
    services: ServiceSettings, policy: Path, tmp_path: Path, form: str
) -> None:
    """The policy is random: only tasks are answered, and every answer passes the filters."""
    file = write_file(
        tmp_path / "in",
        policy=str(policy),
        prompt_format=form,
        invention={"wanted": 0},
        tasks=["tasks.jsonl"],
        answers={"samples": 3, "max_tokens": 120, "shown": 1, "temperature": 2.0},
        filters={"max_repeated": 1.0},
        scoring=None,
    )
    rows = [
        {"id": f"t{n}", "dataset": "t", "role": "train", "prompt": f"Return x plus {n}."}
        | {"rubric": "qa"}
        for n in range(4)
    ]
    lines = "".join(json.dumps(one) + "\n" for one in rows)
    (tmp_path / "in" / "tasks.jsonl").write_text(lines)
    order = [
        InstructionsOrder(file, tmp_path / name, serve="service", concurrency=4) for name in "ab"
    ]

    first = make_instructions(order[0], services, QUIET)
    again = make_instructions(order[1], services, QUIET)

    assert first.digest == again.digest, "the sampler is seeded"
    assert first.made is not None
    channel = first.made["channel"]
    assert isinstance(channel, dict)
    if form == "chat":
        assert channel["verdict"] == "NOT_CHECKED"
        return
    assert (channel["verdict"], channel["num_prompts"], channel["num_unclean"]) == ("CLEAN", 12, 0)
    planted = channel["planted"]
    assert isinstance(planted, list)
    assert planted
    for one in planted:
        assert isinstance(one, dict)
        assert one["found"] == one["sent"]
