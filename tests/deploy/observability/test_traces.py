"""A sample followed through real processes: its trace, and the ids in every log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay_shared.local.launcher import Launcher, running_services
from assay_shared.runs.queue import make_celery
from assay_shared.settings.environment import ServiceSettings
from assay_shared.telemetry.context import log_fields
from assay_shared.telemetry.tracing import end_tracing, set_up_tracing
from assay_shared.types import (
    CallCase,
    GroupRequest,
    PromptFormat,
    Role,
    SamplingParams,
    Scored,
    ScoredGroup,
    Task,
)
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.store import GroupStore
from tests.conftest import wait_until
from tests.support.observability.collector import Collector, SeenSpan, collecting
from tests.support.policies import make_policy_folder

RUN, STEP, NUM_SAMPLES = "traced", 7, 2
#: Which spans of each process end last.
LAST = {"rollout", "rollout.run_once", "POST /v1/score", "POST /v1/generate"}
TASK = Task(
    id="add",
    dataset="d",
    role=Role.TRAIN,
    prompt="def solve(x):\n",
    prompt_format=PromptFormat.RAW,
    rubric="code.dense",
    tests=(CallCase(function="solve", args=(1,), expected=2),),
)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Launcher]:
    home = tmp_path_factory.mktemp("mesh")
    make_policy_folder(home / "policy")
    settings = {
        "ASSAY_OTLP_ENDPOINT": collector.url,
        "ASSAY_INFERENCE_MODEL": str(home / "policy"),
    }
    with running_services(home, num_workers=1, settings=settings) as mesh:
        yield mesh


@pytest.fixture(scope="module")
def played(mesh: Launcher, collector: Collector) -> ScoredGroup:
    """A group asked for by the trainer's own code."""
    url = mesh.environment["ASSAY_REDIS_URL"]
    settings = ServiceSettings(redis_url=url, otlp_endpoint=collector.url)
    set_up_tracing("trainer", settings)
    store = GroupStore(url)
    try:
        rollouts = RolloutDispatcher(make_celery(url), store, timeout_s=60, attempts=1)
        sampling = SamplingParams(n=NUM_SAMPLES, max_tokens=8, seed=1)
        key = f"{RUN}/0/add/v0/code.dense"
        with log_fields(step=STEP):
            rollouts.send(GroupRequest(key=key, run=RUN, task=TASK, sampling=sampling))
        found = rollouts.collect(wait_s=90)
    finally:
        store.close()
        end_tracing()
    return found[0]


@pytest.fixture(scope="module")
def trace(played: ScoredGroup, collector: Collector) -> list[SeenSpan]:
    """All spans of the group's trace, once all services have sent theirs."""

    def whole() -> list[SeenSpan]:
        for spans in collector.traces().values():
            names = [span.name for span in spans]
            if set(names) >= LAST and names.count("POST /v1/test") == NUM_SAMPLES:
                return spans
        return []

    wait_until(whole, "the spans of all services")
    return whole()


def test_one_trace_goes_from_the_trainer_to_the_sandbox(
    played: ScoredGroup, trace: list[SeenSpan]
) -> None:
    assert all(isinstance(reward, Scored) for reward in played.rewards)
    by_id = {span.id: span for span in trace}

    def path(span: SeenSpan) -> list[tuple[str, str]]:
        above = path(by_id[span.parent]) if span.parent else []
        return [*above, (span.service.removeprefix("assay-"), span.name)]

    to_worker = [
        ("trainer", "rollout"),
        ("worker", "rollout.run_once"),
        ("worker", "rollout.run_group"),
    ]
    (drawn,) = (span for span in trace if span.name == "inference.draw")
    assert path(drawn) == [
        *to_worker,
        ("worker", "rollout.draw"),
        ("inference", "POST /v1/generate"),
        ("inference", "inference.draw"),
    ]
    ran = [span for span in trace if span.name == "sandbox.run"]
    assert len(ran) == NUM_SAMPLES
    for span in ran:
        assert path(span) == [
            *to_worker,
            ("worker", "rollout.score"),
            ("reward", "POST /v1/score"),
            ("reward", "reward.score"),
            ("reward", "reward.measure"),
            ("sandbox", "POST /v1/test"),
            ("sandbox", "sandbox.run"),
        ]


def test_spans_say_which_sample_it_was(played: ScoredGroup, trace: list[SeenSpan]) -> None:
    ran = [span.attributes for span in trace if span.name == "sandbox.run"]
    assert sorted(one["assay.sample"] for one in ran) == list(range(NUM_SAMPLES))
    assert {one["assay.group"] for one in ran} == {played.group.key}
    assert {one["assay.run"] for one in ran} == {RUN}
    assert {one["assay.step"] for one in ran} == {STEP}
    (drawn,) = (span.attributes for span in trace if span.name == "inference.draw")
    assert drawn["assay.tokens"] == sum(len(one.token_ids) for one in played.group.rollouts)


def lines(mesh: Launcher, part: str) -> list[dict[str, Any]]:
    text = (Path(mesh.home) / "logs" / f"{part}.log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("inference", "POST /v1/generate 200"),
        ("reward", "POST /v1/score 200"),
        ("sandbox", "POST /v1/test 200"),
    ],
)
def test_log_lines_bear_run_step_group_and_sample(
    mesh: Launcher, played: ScoredGroup, part: str, message: str
) -> None:
    found = [line for line in lines(mesh, part) if line["message"] == message]
    assert found
    for line in found:
        assert line["run"] == RUN
        assert line["step"] == STEP
        assert line["group"] == played.group.key
        assert ("sample" in line) == (part == "sandbox")
    if part == "sandbox":
        assert sorted(line["sample"] for line in found) == list(range(NUM_SAMPLES))


def test_probes_make_no_traces(mesh: Launcher, trace: list[SeenSpan], collector: Collector) -> None:
    assert not [span for span in collector.spans if span.name.startswith("GET /health")]
