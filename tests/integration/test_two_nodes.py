"""Two nodes that torchrun joins over loopback train as one does, and resume after a death."""

import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import torch

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import PolicyVersion
from assay_trainer.learner.network.model import load_policy
from assay_trainer.learner.packs import pack_rows, rows
from assay_trainer.learner.updater import Updater
from assay_trainer.rollouts.rollout_log import TrainedGroup, read_rollouts
from assay_trainer.service.record import open_run
from assay_trainer.weights.versions import sampled_by
from tests.conftest import wait_until
from tests.integration.conftest import Assay, demo_file
from tests.support.runs import LOOKUP

pytestmark = pytest.mark.nightly

NUM_STEPS = 3
START_TIMEOUT_S = 240.0
#: Every group of a step is sampled by the weights that the step updates.
SETTINGS = (
    *LOOKUP,
    f"grpo.steps={NUM_STEPS}",
    "grpo.groups_per_step=6",
    "grpo.max_staleness=0",
    "grpo.tokens_per_pack=128",
    "retention.checkpoints=9",
)


@contextmanager
def two_nodes(assay: Assay, *arguments: str) -> Iterator[list["subprocess.Popen[str]"]]:
    """Yield torchrun of each node; none is left at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = "{}:{}".format(*free.getsockname())
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1"),
                *("--rdzv-endpoint", endpoint, "--max-restarts", "0"),
                *("-m", "assay_shared.cli", "train", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=assay.environment | {"OMP_NUM_THREADS": "1"},
        )
        for node in range(2)
    ]
    try:
        yield started
    finally:
        for node in started:
            kill(node)


def kill(node: "subprocess.Popen[str]") -> None:
    """End torchrun and all processes below it, as the loss of a machine would."""
    if node.poll() is None:
        whole = psutil.Process(node.pid)
        for process in (*whole.children(recursive=True), whole):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    assert node.stdout is not None
    if not node.stdout.closed:
        node.communicate()


@pytest.fixture(scope="module")
def finished(assay: Assay, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run whose second node died after the first step."""
    folder = tmp_path_factory.mktemp("nodes") / "run"

    def saved() -> bool:
        assay.mesh.watch()
        return (folder / "checkpoints" / "grpo" / "checkpoint-1" / "assay.json").exists()

    with two_nodes(assay, demo_file(), *SETTINGS, "--folder", str(folder)) as (first, second):
        wait_until(saved, "the first checkpoint", START_TIMEOUT_S)
        kill(second)
        said = assay.finish(first)
    assert first.returncode == 1, said
    status = RunFolder(folder).read_status()
    assert status.state == "failed", said
    assert "of this training has ended" in status.message
    with two_nodes(assay, "--resume", str(folder)) as nodes:
        told = [assay.finish(node) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], told
    return folder


def trained(folder: Path) -> dict[int, list[TrainedGroup]]:
    """Return the groups behind the run's weights, by step."""
    found: dict[int, list[TrainedGroup]] = {step: [] for step in range(1, NUM_STEPS + 1)}
    for one in read_rollouts(folder / "rollouts.jsonl"):
        if not one.superseded:
            found[one.step].append(one)
    return found


def test_a_node_that_dies_ends_the_run_as_failed_and_both_resume_it(finished: Path) -> None:
    run = RunFolder(finished)
    assert run.read_status().state == "finished"
    events = list(run.read_events())
    steps = [event.data["step"] for event in events if event.kind == "step"]
    assert sorted(set(steps)) == [1, 2, 3]  # type: ignore[type-var]
    assert steps.count(1) == 1, "the checkpoint after the first step was resumed"
    draws = Counter(
        one.group.key.removeprefix(f"{finished.name}/").split("/")[0]
        for groups in trained(finished).values()
        for one in groups
    )
    assert max(draws.values()) == 1, "a draw was trained on twice"


def test_both_nodes_end_where_a_run_is_finished(assay: Assay, finished: Path) -> None:
    with two_nodes(assay, "--resume", str(finished)) as nodes:
        told = [assay.finish(node, timeout_s=200) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], told
    assert "is finished" in told[0]


def test_two_nodes_do_the_updates_of_one(finished: Path) -> None:
    """One process repeats the run's updates with the same groups."""
    config = open_run(finished)[1].grpo
    assert config is not None
    steps = {
        event.data["step"]: event.data
        for event in RunFolder(finished).read_events()
        if event.kind == "step"
    }
    before = finished / "models" / "sft"
    one, two = (Updater(load_policy(before)[0], config) for _ in range(2))
    start_N = weights(one)
    for step, groups in trained(finished).items():
        (policy,) = set[PolicyVersion]().union(*map(sampled_by, groups))
        packs = pack_rows(
            rows(groups, config.normalise), one.objective, config.tokens_per_pack, policy
        )
        assert len(packs) > 2, "both nodes have packs"
        gradient = one.backward(packs)
        one.apply(step, gradient)
        for name in ("loss", "grad_norm", "entropy", "kl"):
            expected = pytest.approx(getattr(gradient, name), rel=1e-3, abs=1e-5)
            assert steps[step][name] == expected, (step, name)
        two.load(finished / "checkpoints" / "grpo" / f"checkpoint-{step}")
        assert distance(moments(one), moments(two)) < 1e-5
        moved = float((weights(one) - start_N).norm())
        assert float((weights(one) - weights(two)).norm()) < 1e-3 * moved


def weights(updater: Updater) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in updater._model.parameters()])


def moments(updater: Updater) -> torch.Tensor:
    """Return AdamW's first moments: a mean of the gradients so far."""
    states = updater._optimiser.state_dict()["state"]
    return torch.cat([states[at]["exp_avg"].flatten() for at in sorted(states)])


def distance(one_N: torch.Tensor, two_N: torch.Tensor) -> float:
    return float((one_N - two_N).norm() / one_N.norm())
