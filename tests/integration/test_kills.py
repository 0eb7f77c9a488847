"""Kill any process at any time: no group is lost or counted twice, and the run continues."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import redis

from assay_shared.local.launcher import Launcher
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.events import StepEvent
from assay_trainer.rollouts.rollout_log import read_rollouts
from tests.integration.conftest import Assay, demo_file, wait_for_event
from tests.support.ranks import environments
from tests.support.runs import LOOKUP

#: Long enough steps to be in the middle of one.
SLOWER = (
    *(override for override in LOOKUP if not override.startswith("sft")),
    "data.train.code=0.3",  # answers that the sandbox runs
    "grpo.steps=3",
    "grpo.groups_per_step=8",
    "grpo.group_size=8",
    "grpo.max_groups_per_step=64",
    "grpo.max_tokens=64",
)


def check_draws(mesh: Launcher, folder: Path, num_steps: int) -> tuple[Counter[int], set[int]]:
    """Check that each finished draw is stored and trained on at most once; return both sets.

    A draw is stored once for each version of the weights that it was played under.
    """
    rollouts = read_rollouts(folder / "rollouts.jsonl")
    trained = [one.group.key for one in rollouts if not one.superseded]
    draws_trained = Counter(key.removeprefix(f"{folder.name}/").split("/")[0] for key in trained)
    assert [draw for draw, count in draws_trained.items() if count > 1] == []
    (checkpoint,) = sorted(
        (folder / "checkpoints" / "grpo").glob(f"checkpoint-{num_steps}/assay.json")
    )
    state = json.loads(checkpoint.read_text())
    with redis.Redis.from_url(mesh.environment["ASSAY_REDIS_URL"]) as client:
        prefix = f"assay:group:{folder.name}/"
        stored = [key.decode().removeprefix(prefix) for key in client.scan_iter(f"{prefix}*")]
    draws = Counter(int(key.split("/")[0]) for key in stored if key[0].isdigit())
    finished = set(range(state["next_draw"])) - set(state["unfinished"])
    assert finished <= set(draws), "a group was lost"
    return draws, finished


def check_groups(mesh: Launcher, folder: Path, num_steps: int) -> None:
    """Every draw was played, stored once, and trained on at most once."""
    draws, finished = check_draws(mesh, folder, num_steps)
    steps = [event.data for event in RunFolder(folder).read_events() if event.kind == "step"]
    # What had become too old is asked for again, under the key of the new version.
    num_refused = sum(sum(StepEvent.model_validate(step).refused.values()) for step in steps)
    assert draws.total() - len(draws) == num_refused, "a group was played under two keys"
    assert [step["step"] for step in steps] == list(range(1, num_steps + 1))
    assert sum(int(str(step["num_played"])) for step in steps) == len(finished) + num_refused


def test_processes_killed_in_the_middle_of_steps_cost_nothing(
    assay: Assay, mesh: Launcher, warm: tuple[str, ...], tmp_path: Path
) -> None:
    """Each kill is in another step, and the run has done its step before the next kill."""
    victims = ("worker-1", "valkey", "inference", "reward")
    num_steps = len(victims) + 1
    folder = tmp_path / "killed"
    settings = (*warm, *SLOWER, f"grpo.steps={num_steps}")
    process = assay.start("train", demo_file(), *settings, "--folder", str(folder))
    for step, victim in enumerate(victims, start=1):
        wait_for_event(folder, "step", meanwhile=mesh.watch, step=step)
        os.kill(mesh.processes[victim], signal.SIGKILL)
    output = assay.finish(process)
    assert process.returncode == 0, output
    assert RunFolder(folder).read_status().state == "finished"
    check_groups(mesh, folder, num_steps)


def test_a_run_killed_in_every_stage_ends_like_one_that_was_not(
    assay: Assay, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    process = assay.start("train", demo_file(), *LOOKUP, "--folder", str(folder))
    wait_for_event(folder, "sft_step", step=20)
    process.kill()
    assay.finish(process)
    assert RunFolder(folder).read_status().state == "running", "it had no time to say a word"

    process = assay.start("train", "--resume", str(folder))
    wait_for_event(folder, "step", step=2)
    process.kill()
    assay.finish(process)

    process = assay.start("train", "--resume", str(folder))
    wait_for_event(folder, "stage_started", stage="evaluate after")
    process.kill()
    assay.finish(process)

    assay.run("train", "--resume", str(folder))
    events = list(RunFolder(folder).read_events())
    assert RunFolder(folder).read_status().state == "finished"
    sft = [e.data["step"] for e in events if e.kind == "sft_step"]
    assert sft.count(10) == 1, "SFT resumed from its checkpoint"
    steps = [e.data["step"] for e in events if e.kind == "step"]
    assert sorted(set(steps)) == [1, 2, 3, 4]  # type: ignore[type-var]
    assert steps.count(1) == 1, "GRPO resumed from its checkpoint"
    versions = [e.data["version"] for e in events if e.kind == "step"]
    assert versions == sorted(versions), "weights never went backwards"  # type: ignore[type-var]
    groups = Counter(one.step for one in read_rollouts(folder / "rollouts.jsonl") if one.superseded)
    after_sft, resumed = [e.data for e in events if e.kind == "resumed"]
    assert (after_sft["stage"], after_sft["step"]) in (("sft", 10), ("sft", 20))
    assert groups.total() == resumed["num_superseded"]
    assert all(step > resumed["step"] for step in groups)  # type: ignore[operator]
    lost = [e.data["message"] for e in events if e.kind == "run_failed"]
    assert len(lost) == 3, "each resume tells of the end before it"
    assert all("ended without a word" in str(message) for message in lost)
    report = json.loads((folder / "report.json").read_text())
    assert report["training"]["num_steps"] == 4
    assert set(report["evaluations"]) == {"before", "after"}


@pytest.mark.nightly
def test_a_run_of_two_ranks_of_which_each_is_killed_loses_and_repeats_nothing(
    assay: Assay, mesh: Launcher, warm: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "ranks"
    settings = (*warm, *SLOWER, "grpo.checkpoint_every=1")
    asked: tuple[str, ...] = (demo_file(), *settings, "--folder", str(folder))
    for victim, step in ((1, 1), (0, 2)):
        ranks = [assay.start("train", *asked, **one) for one in environments(2)]
        wait_for_event(folder, "step", meanwhile=mesh.watch, step=step)
        ranks[victim].kill()
        said = [assay.finish(rank) for rank in ranks]
        assert ranks[1 - victim].returncode == 1, said
        assert "of this training has ended" in said[1 - victim]
        asked = ("--resume", str(folder))
    first, second = (assay.start("train", *asked, **one) for one in environments(2))
    said = [assay.finish(rank) for rank in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert RunFolder(folder).read_status().state == "finished"
    check_draws(mesh, folder, 3)
    trained = Counter(
        one.step for one in read_rollouts(folder / "rollouts.jsonl") if not one.superseded
    )
    assert sorted(trained) == [1, 2, 3]


def test_a_rank_that_is_killed_during_sft_ends_the_run(
    assay: Assay, mesh: Launcher, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    settings = (*LOOKUP, "sft.steps=100000", "--folder", str(folder))
    first, second = (assay.start("train", demo_file(), *settings, **one) for one in environments(2))
    wait_for_event(folder, "sft_step", meanwhile=mesh.watch)
    second.kill()
    said = [assay.finish(rank, timeout_s=120) for rank in (first, second)]
    assert first.returncode == 1, said
    ends = [event.kind for event in RunFolder(folder).read_events() if event.kind != "sft_step"]
    assert ends[-1] == "run_failed"
    assert "a process of this training has ended" in RunFolder(folder).read_status().message
    assert list((folder / "checkpoints" / "sft").glob("checkpoint-*/assay.json"))


def test_a_stop_between_steps_leaves_a_checkpoint_and_a_word(
    assay: Assay, warm: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    settings = (*warm, *SLOWER, "grpo.steps=30", "grpo.checkpoint_every=100")
    process = assay.start("train", demo_file(), *settings, "--folder", str(folder))
    wait_for_event(folder, "step", step=1)
    process.terminate()
    output = assay.finish(process)
    assert process.returncode == 1
    assert "error: the run was stopped (resume it to continue)" in output
    assert RunFolder(folder).read_status().state == "stopped"
    assert list((folder / "checkpoints" / "grpo").glob("checkpoint-*/assay.json"))


def test_a_service_that_stays_down_ends_the_run_in_one_line_and_it_resumes(
    assay: Assay, mesh: Launcher, warm: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    settings = (*warm, *SLOWER, "grpo.steps=6", "grpo.max_failed_groups=2")
    process = assay.start("train", demo_file(), *settings, "--folder", str(folder))
    wait_for_event(folder, "step", step=1)
    mesh.stop_part("reward")
    try:
        output = assay.finish(process)
    finally:
        mesh.start_part("reward")
    assert process.returncode == 1
    assert "in a row have no score; the last failed in reward" in output
    assert "Traceback" not in output
    assay.run("train", "--resume", str(folder))
    assert RunFolder(folder).read_status().state == "finished"
