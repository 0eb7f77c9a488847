"""`assay data instructions` on real parts: a scripted model server, reward, and a judge."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet
import pytest
import yaml
from rich.console import Console

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_shared.clients import InferenceClient
from assay_shared.errors import BudgetExceeded, Conflict, DatasetError, InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import GenerateRequest, GenerateResponse, Message, Role
from assay_shared.weights.checkpoint import digest
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.governance.manifest import ImportManifest
from assay_trainer.demonstrations.instructions.asking_model.channel_check import check_channel
from assay_trainer.demonstrations.instructions.operation import (
    InstructionsOrder,
    make_instructions,
)
from assay_trainer.evaluate.policy.serving import publish_folder
from assay_trainer.table_source import ImportedSource
from assay_trainer.verification.model_tokens import read_tokens
from tests.conftest import Serve
from tests.support.fakes import make_task
from tests.support.policies import TINY, make_policy_folder
from tests.support.upstream import Upstream, says, verdict

QUIET = Console(quiet=True)
SEEDS = [
    {"instruction": "Name three rivers of Europe.", "response": "The Danube, Rhine and Po."},
    {"instruction": "Explain why the sky is blue by day.", "output": "Air scatters blue light."},
]
CRITIQUE, REVISION = "What is wrong with it?", "Write it again without the mistakes."
PRINCIPLES = [{"name": "right", "critique_request": CRITIQUE, "revision_request": REVISION}]
GOOD = [f"Describe the town of {name} to a visitor." for name in ("Rome", "Oslo", "Lima", "Bern")]
EMPTY, CONTROL, HUGE = "Answer with nothing at all.", "Answer with a token.", "Answer at length."
REFUSED, CUT = "Answer that you refuse.", "Answer until you are cut off."
BAD_ANSWERS = {
    EMPTY: says(""),
    CONTROL: says("Good. <|im_end|>\n<|im_start|>user"),
    HUGE: says("word " * (2**20 // 5)),
    REFUSED: says("I'm sorry, but I cannot help with that."),
    CUT: says("It begins well and", finish_reason="length"),
}
ECHOED = "Repeat this sentence about boats."
BAD_ANSWERS[ECHOED] = says(f"{ECHOED.upper()}")
WRONG = "Describe a town that the judge rejects."
UNDECIDED = "Describe a town that the judge cannot decide on."
HELD_OUT = "Count the windows of the old house by the harbour."


@dataclass
class Model:
    """A model that proposes `proposed`, a list in each reply, and answers by the script."""

    proposed: list[str]
    delay_s: float = 0.0
    #: Statuses in the place of replies, first of all.
    statuses: list[int] = field(default_factory=list)

    def __call__(self, asked: dict[str, object]) -> object:
        time.sleep(self.delay_s)
        if self.statuses:
            return self.statuses.pop(0)
        messages = asked["messages"]
        assert isinstance(messages, list)
        last = str(messages[-1]["content"])
        if last.startswith("These are tasks"):
            return says(self.proposed.pop(0) if self.proposed else "")
        if last == CRITIQUE:
            return says("It is too short.")
        if last == REVISION:
            return says(f"A longer answer to: {messages[0]['content']}")
        return BAD_ANSWERS.get(last, says(f"A short answer to: {last}"))


def listed(*texts: str) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, start=3))


def judged(asked: dict[str, object]) -> object:
    text = json.dumps(asked)
    if UNDECIDED in text:
        return says("I do not know")
    return verdict("INCORRECT" if WRONG in text else "CORRECT")


@pytest.fixture(scope="module")
def settings(serve_for_all: Serve, tmp_path_factory: pytest.TempPathFactory) -> ServiceSettings:
    """The settings that lead to a reward service with a judge."""
    llm = serve_for_all(Upstream(judged).app)
    file = tmp_path_factory.mktemp("judge") / "judge.yaml"
    provider = {"kind": "openai", "name": "llm", "base_url": f"{llm}/v1", "model": "m"}
    file.write_text(yaml.safe_dump({"chain": [provider | {"timeout_s": 5.0, "attempts": 1}]}))
    judge = serve_for_all(create_judge(JudgeSettings(judge_config=file)))
    return ServiceSettings(reward_url=serve_for_all(create_reward(RewardSettings(judge_url=judge))))


def write_file(folder: Path, url: str, **values: object) -> Path:
    """Write the command's file, seeds and constitution; return the file."""
    (folder / "seeds.jsonl").write_text("".join(json.dumps(one) + "\n" for one in SEEDS))
    (folder / "rules.yaml").write_text(yaml.safe_dump({"principles": PRINCIPLES}))
    config: dict[str, object] = {
        "seeds": "seeds.jsonl",
        "server": {"url": f"{url}/v1", "model": "m"},
        "invention": {"wanted": 20, "round_requests": 2, "max_requests": 4},
        "scoring": {"rubric": "qa", "min_score": 1.0},
    }
    file = folder / "instructions.yaml"
    file.write_text(yaml.safe_dump(config | values))
    return file


def make(file: Path, settings: ServiceSettings, **values: object) -> ImportManifest:
    order = InstructionsOrder(file=file, output=file.parent / "out", **values)  # type: ignore[arg-type]
    return make_instructions(order, settings, QUIET)


def rows_of(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def overall(folder: Path) -> dict[str, object]:
    found = json.loads((folder / "metrics.json").read_text())["overall"]
    assert isinstance(found, dict)
    return found


def test_hostile_replies_are_counted_and_never_become_rows(
    serve: Serve, settings: ServiceSettings, tmp_path: Path
) -> None:
    model = Model(
        [
            listed(
                *GOOD, SEEDS[0]["instruction"], GOOD[0].upper(), "Go.", "Say <|im_start|> twice."
            ),
            listed(EMPTY, CONTROL, HUGE, REFUSED, CUT, ECHOED),
            "word " * (2**20 // 5),
            listed("Describe the old town of Rome to a visitor.", HELD_OUT, WRONG, UNDECIDED),
        ]
    )
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text(make_task("h", role=Role.TEST, prompt=HELD_OUT).model_dump_json() + "\n")
    file = write_file(tmp_path, serve(Upstream(model).app))
    manifest = make(file, settings, against=(held_out,))

    rows = rows_of(tmp_path / "out")
    assert sorted(row["instruction"] for row in rows) == sorted(GOOD)
    assert all(row["response"] == f"A short answer to: {row['instruction']}" for row in rows)
    left_out = overall(tmp_path / "out")["left_out"]
    assert isinstance(left_out, dict)
    assert left_out["answer"] == {
        "empty": 1,
        "control_token": 1,
        "too_long": 1,
        "refused": 1,
        "no_answer_end": 1,
        "same_as_instruction": 1,
        "low_score": 1,
        "judge_abstained": 1,
    }
    assert left_out["instruction"] == {
        "same_seed": 1,
        "same_instruction": 1,
        "near_instruction": 1,
        "too_short": 1,
        "control_token": 1,
        "held_out": 1,
    }
    assert left_out["reply"] == {"no_instruction": 1}
    assert manifest.made is not None
    assert manifest.made["channel"] == {
        "verdict": "NOT_CHECKED",
        "reason": "prompts go through the model's chat template",
    }
    tasks = open_dataset(
        ImportedSource(kind="imported", path=tmp_path / "out"), DatasetPurpose.TRAIN, None
    ).tasks
    assert {task.gold for task in tasks} == {row["response"] for row in rows}
    table = pyarrow.parquet.read_table(tmp_path / "out" / "rows.parquet").to_pylist()
    assert [one["instruction"] for one in table] == [row["instruction"] for row in rows]
    ledger = (tmp_path / "out" / "ledger.jsonl").read_bytes()
    assert max(map(len, ledger.splitlines())) < 70_000, "of a reply of 1 MiB, 64 KiB are stored"
    assert GOOD[0] in (tmp_path / "out" / "sample.txt").read_text()
    assert "<!doctype html>" in (tmp_path / "out" / "sample.html").read_text()[:100].lower()


def test_an_undecided_answer_is_no_zero(
    serve: Serve, settings: ServiceSettings, tmp_path: Path
) -> None:
    file = write_file(tmp_path, serve(Upstream(Model([listed(GOOD[0], UNDECIDED)])).app))
    make(file, settings)
    found = overall(tmp_path / "out")
    assert (found["num_scored_tasks"], found["mean_score"]) == (1, 1.0)


def test_planted_prompts_of_test_sets_are_refused(
    serve: Serve, settings: ServiceSettings, tmp_path: Path, data_folder: Path
) -> None:
    with gzip.open(data_folder / "HumanEval.jsonl.gz", "rt") as lines:
        program = json.loads(next(lines))["prompt"]
    question = json.loads((data_folder / "gsm8k/test.jsonl").read_text().splitlines()[0])[
        "question"
    ]
    planted = listed(
        GOOD[0], f"Solve this: {question}", f"Complete this program:\n{program}", GOOD[1]
    )
    file = write_file(tmp_path, serve(Upstream(Model([planted])).app))
    make(file, settings)
    left_out = overall(tmp_path / "out")["left_out"]
    assert isinstance(left_out, dict)
    assert left_out["instruction"]["test_set"] == 2
    assert {row["instruction"] for row in rows_of(tmp_path / "out")} == set(GOOD[:2])


def test_a_test_prompt_with_a_list_inside_is_refused_in_all_its_parts(
    serve: Serve, settings: ServiceSettings, tmp_path: Path, data_folder: Path
) -> None:
    with gzip.open(data_folder / "HumanEval.jsonl.gz", "rt") as lines:
        programs = [json.loads(line)["prompt"] for line in lines]
    (program,) = (one for one in programs if "1. 1 <= n <= 10^3" in one)
    replies = [f"1. {program}\n", listed(*GOOD)]
    make(write_file(tmp_path, serve(Upstream(Model(replies)).app)), settings)
    assert {row["instruction"] for row in rows_of(tmp_path / "out")} <= set(GOOD)


def test_answers_are_revised_by_the_constitution_and_make_pairs(
    serve: Serve, settings: ServiceSettings, tmp_path: Path
) -> None:
    revision = {"constitution": "rules.yaml", "pairs": True}
    url = serve(Upstream(Model([listed(*GOOD)])).app)
    make(write_file(tmp_path, url, revision=revision), settings)
    for row in rows_of(tmp_path / "out"):
        record = row["record"]
        assert isinstance(record, dict)
        assert row["response"] == f"A longer answer to: {row['instruction']}"
        assert record["first_answer"] == f"A short answer to: {row['instruction']}"
        assert record["revisions"] == [
            {"principle": "right", "critique": "It is too short.", "answer": row["response"]}
        ]
    pairs = [
        json.loads(line)
        for line in (tmp_path / "out/preferences/preferences.jsonl").read_text().splitlines()
    ]
    assert len(pairs) == overall(tmp_path / "out")["num_pairs"] == 4
    assert all(one["chosen"].startswith("A longer") for one in pairs)
    assert all(one["rejected"].startswith("A short") for one in pairs)


def test_the_validation_share_goes_by_the_prompt(
    serve: Serve, settings: ServiceSettings, tmp_path: Path
) -> None:
    towns = [f"Describe place number {n} called {n * 7919} in the north." for n in range(30)]
    url = serve(Upstream(Model([listed(*towns[:8]), listed(*towns[8:16])])).app)
    manifest = make(
        write_file(tmp_path, url, validation_share=0.4, filters={"similarity": 1.0}), settings
    )
    assert 0 < manifest.roles[Role.VALIDATION] < manifest.count == 16
    lines = (tmp_path / "out/demonstrations.jsonl").read_text().splitlines()
    assert len(lines) == manifest.roles[Role.TRAIN]


def test_a_server_that_fails_costs_no_row_and_the_same_command_continues(
    serve: Serve, settings: ServiceSettings, tmp_path: Path
) -> None:
    model = Model([listed(*GOOD)], statuses=[503, 503])
    upstream = Upstream(model)
    file = write_file(tmp_path, serve(upstream.app))
    make(file, settings)
    num_asked = len(upstream.requests)
    assert len(rows_of(tmp_path / "out")) == 4
    make(file, settings)
    assert len(upstream.requests) == num_asked, "a whole folder asks nothing"
    with pytest.raises(Conflict, match="another seed"):
        make(file, settings, overrides=("seed=1",))


def test_what_leaves_no_row_is_an_error(
    serve: Serve, settings: ServiceSettings, tmp_path: Path
) -> None:
    file = write_file(tmp_path, serve(Upstream(Model([listed(EMPTY)])).app))
    with pytest.raises(DatasetError):
        make(file, settings)
    other = tmp_path / "other"
    other.mkdir()
    file = write_file(other, serve(Upstream(Model([listed(UNDECIDED)])).app))
    with pytest.raises(BudgetExceeded, match="no answer has a score"):
        make(file, settings)


@pytest.mark.slow
def test_a_killed_command_continues_without_a_request_twice(
    serve: Serve, settings: ServiceSettings, tmp_path: Path
) -> None:
    towns = [f"Describe place number {n} called {n * 7919} in the north." for n in range(16)]
    upstream = Upstream(Model([listed(*towns)], delay_s=0.1))
    values = {"filters": {"similarity": 1.0}, "invention": {"wanted": 8, "round_requests": 1}}
    file = write_file(tmp_path, serve(upstream.app), **values)
    out = tmp_path / "out"
    words = [sys.executable, "-m", "assay_shared.cli", "data", "instructions", str(file)]
    words += ["--output", str(out), "--concurrency", "1"]
    environment = os.environ | {"ASSAY_REWARD_URL": settings.reward_url}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    ledger = out / "ledger.jsonl"
    while not ledger.exists() or len(ledger.read_bytes().splitlines()) < 4:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    with ledger.open("ab") as file_:
        file_.write(b'{"key": "cut')  # as a kill within a write leaves it
    num_before = len(upstream.requests)
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=200)
    keys = [json.loads(line)["key"] for line in ledger.read_text().splitlines()]
    assert len(keys) == len(set(keys))
    assert len(rows_of(out)) == 8
    # 8 answers and one list: at most the request in flight was made twice.
    assert len(upstream.requests) <= 10
    assert num_before >= 4


@dataclass
class Templating:
    """Sends raw prompts through the chat template, as a faulty channel does."""

    inner: InferenceClient

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        if request.prompt is not None:
            said = (Message(role="user", content=request.prompt),)
            request = request.model_copy(update={"prompt": None, "messages": said})
        return await self.inner.generate(request)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    folder = tmp_path / "policy"
    make_policy_folder(folder, config=TINY.model_copy(update={"context_length": 1024}))
    return folder


def test_raw_prompts_are_compared_token_by_token(
    serve: Serve, tmp_path: Path, policy: Path
) -> None:
    url = serve(create_inference(InferenceSettings(inference_weight_roots="/")))
    file = write_file(
        tmp_path,
        url,
        server=None,
        policy=str(policy),
        prompt_format="raw",
        scoring=None,
        invention={"wanted": 3, "max_requests": 4, "max_tokens": 8},
    )
    with suppress(DatasetError):  # a random policy writes no instructions
        make(file, ServiceSettings(inference_url=url), serve="service")
    lines = (tmp_path / "out/ledger.jsonl").read_text().splitlines()
    sent = [json.loads(line)["sent"] for line in lines]
    assert len(sent) == 4
    assert all(one["num_tokens"] > 50 and len(one["ids"]) == 64 for one in sent)


async def test_a_channel_with_a_template_is_refused(serve: Serve, policy: Path) -> None:
    url = serve(create_inference(InferenceSettings(inference_weight_roots="/")))
    version = await publish_folder(policy, digest(policy), ServiceSettings(inference_url=url))
    tokens = read_tokens(policy)
    async with InferenceClient(url) as client:
        assert (await check_channel(client, tokens, version)).at_start is not None
        with pytest.raises(InvalidInput, match="NOT_CLEAN"):
            await check_channel(Templating(client), tokens, version)
