"""Two ranks have the same gradient as a single rank, in every form, and share checkpoints."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from assay_shared.errors import Unreachable
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.packs import pack_rows, rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.updater import LeadingUpdater, Updater, make_updater
from assay_trainer.weights.folder import publish_policy
from tests.support.fakes import POLICY
from tests.support.policies import TEXTS, TINY
from tests.support.ranks import FOLLOW, ROOT, environments, processes
from tests.unit.trainer.learner.test_updater import FORMS, make_config, make_groups

LEAD = (sys.executable, "-m", __name__)
#: Packs of one to three rows, of which a rank has one more than the other.
TOKENS_PER_PACK = 20
STEPS = (1, 2)


#: Losses without a peer, and several updates of a step.
OWN_FORMS: dict[str, dict[str, Any]] = {
    "reinforce": {"loss": "reinforce", "entropy_weight": 0.1},
    "dgro": {"loss": "dgro"},
    "three updates": {"loss": "dapo", "correction": "tis", "updates_per_step": 3},
    "two updates with a KL": {"kl_weight": 0.5, "kl_estimator": "k1", "updates_per_step": 2},
}
#: The forms that differ in what a rank sums, or in the weights of a step.
_SOME = ("dapo", "grpo", "dr_grpo", "gspo", "truncated", "sequence mask", "kl")
ALL_FORMS = {name: FORMS[name] for name in _SOME} | OWN_FORMS


def config_of(form: str) -> GRPOConfig:
    return make_config(**ALL_FORMS[form], learning_rate=0.01)


def train(updater: Updater, folder: Path) -> dict[str, Any]:
    """Do two updates, with a checkpoint after the first; return their facts."""
    found: dict[str, Any] = {}
    for step in STEPS:
        groups = make_groups((0.0, 0.0))
        packs = pack_rows(rows(groups), updater.objective, TOKENS_PER_PACK, POLICY)
        assert len(packs) == 3
        gradient = updater.backward(packs)
        updater.measure(packs)
        facts = updater.apply(step, gradient, updater.mismatch.summary())
        for _ in range(1, updater._config.updates_per_step):
            facts = updater.apply(step, updater.backward(packs, again=True), facts.mismatch)
        found[str(step)] = facts
        if step == 1:
            updater.save(folder)
    return found


def num_gloo_threads() -> int:
    """Return how many threads of this process do gloo's operations."""
    names = [one.read_text() for one in Path("/proc/self/task").glob("*/comm")]
    return names.count("pt_gloo_runloop\n")


def lead(policy: Path, output: Path) -> None:
    """Be rank 0: train in every form, and keep facts, checkpoints and served weights."""
    ranks = Ranks()
    facts = {}
    for form in ALL_FORMS:
        model, tokenizer = load_policy(policy)
        updater = make_updater(model, config_of(form), ranks)
        assert isinstance(updater, LeadingUpdater)
        facts[form] = train(updater, output / form / "two")
        publish_policy(model, tokenizer, output / form / "served")
    updater.load(output / "dapo" / "one")
    publish_policy(model, tokenizer, output / "loaded")
    ranks.end()
    assert num_gloo_threads() == 2, "of the default group, which FSDP keeps"
    torch.save(facts, output / "facts.pt")


def first_moments(policy: Path, checkpoint: Path, form: str) -> torch.Tensor:
    """Return AdamW's first moments after a step from zero: the gradient times 0.1."""
    updater = Updater(load_policy(policy)[0], config_of(form))
    updater.load(checkpoint)
    states = updater._optimiser.state_dict()["state"]
    return torch.cat([states[at]["exp_avg"].flatten() for at in sorted(states)])


def test_two_ranks_do_the_updates_of_one(tmp_path: Path) -> None:
    policy = tmp_path / "policy"
    publish_policy(*create_policy(TINY, TEXTS, seed=0), policy)
    alone: dict[str, Any] = {}
    models = {form: load_policy(policy)[0] for form in ALL_FORMS}
    for form, model in models.items():
        alone[form] = train(Updater(model, config_of(form)), tmp_path / form / "one")
    leader = (*LEAD, str(policy), str(tmp_path))
    with processes([leader, FOLLOW]) as (first, second):
        said = first.communicate(timeout=400)[0] + second.communicate(timeout=120)[0]
    assert (first.returncode, second.returncode) == (0, 0), said
    facts = torch.load(tmp_path / "facts.pt", weights_only=False)
    for form, model in models.items():
        for step in map(str, STEPS):
            one, two = alone[form][step], facts[form][step]
            expected = vars(one.gradient)
            missing = {name for name, value in expected.items() if value is None}
            assert {name for name, value in vars(two.gradient).items() if value is None} == missing
            for name in expected.keys() - missing:
                found = getattr(two.gradient, name)
                assert found == pytest.approx(expected[name], rel=1e-3, abs=1e-5), (form, name)
            assert two.moved_share == pytest.approx(one.moved_share, abs=0.01)
            assert two.mismatch.num_tokens == one.mismatch.num_tokens
            assert two.mismatch.max_abs_nats == pytest.approx(one.mismatch.max_abs_nats, rel=1e-4)
        one_N, two_N = (
            first_moments(policy, tmp_path / form / name, form) for name in ("one", "two")
        )
        assert float((one_N - two_N).norm() / one_N.norm()) < 1e-5
        served = load_policy(tmp_path / form / "served")[0]
        for name, weight in model.named_parameters():
            assert torch.allclose(served.get_parameter(name), weight, atol=2e-3), (form, name)
    once = Updater(again := load_policy(policy)[0], config_of("dapo"))
    once.load(tmp_path / "dapo" / "one")
    loaded = load_policy(tmp_path / "loaded")[0]
    for name, weight in again.named_parameters():
        assert torch.equal(loaded.get_parameter(name), weight), "a checkpoint of one, read by two"


def wait_for_death(policy: Path) -> None:
    """Be rank 0 with a follower dying between two updates."""
    ranks = Ranks()
    updater = make_updater(load_policy(policy)[0], config_of("dapo"), ranks)
    packs = pack_rows(rows(make_groups()), updater.objective, TOKENS_PER_PACK)
    updater.backward(packs)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        for _ in range(10_000):
            updater.backward(packs)
    except Unreachable as error:
        sys.stdout.write(error.message)
        sys.exit(3)


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_rank_waits_for_one_that_has_ended(tmp_path: Path, victim: int) -> None:
    policy = tmp_path / "policy"
    publish_policy(*create_policy(TINY, TEXTS, seed=0), policy)
    with processes([(*LEAD, str(policy)), FOLLOW]) as both:
        assert both[0].stdout is not None
        for line in both[0].stdout:
            if line == "ready\n":
                break
        began = time.monotonic()
        os.kill(both[victim].pid, signal.SIGKILL)
        said = both[1 - victim].communicate(timeout=120)[0]
    assert time.monotonic() - began < 10
    assert both[1 - victim].returncode not in (0, -signal.SIGKILL)
    assert "of this training has ended" in said


#: `--gpus 0,1` on CPUs: only the look for GPUs is left out.
JOINED = """
import sys
from assay_shared.errors import Unreachable
from assay_trainer.learner import ranks

ranks.check_gpus = lambda gpus: None
sys.executable = sys.argv[1]
try:
    with ranks.joined([0, 1]) as both:
        print(both.size, "joined")
except Unreachable as error:
    sys.exit(error.message)
"""


def joined(python: str) -> tuple[int, str]:
    """Return the exit code and output of a process that starts another one with `python`."""
    command = [sys.executable, "-c", JOINED, python]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


def test_a_process_is_started_for_each_gpu() -> None:
    assert joined(sys.executable) == (0, "2 joined\n")


def test_a_process_that_ends_as_it_starts_is_not_waited_for() -> None:
    code, said = joined("false")
    assert (code, said) == (1, "process 1 of this training ended with code 1 as it started\n")


STOPPED = """
import os, signal, sys
from assay_trainer.learner.ranks import joined
from assay_trainer.stop import Stop, Stopped

stop = Stop()
stop.listen()
os.kill(os.getpid(), signal.SIGTERM)
try:
    with joined(stop=stop):
        pass
except Stopped as error:
    sys.exit(error.message)
"""


def test_a_stop_ends_the_wait_for_other_processes() -> None:
    env = os.environ | environments(2)[0]
    command = [sys.executable, "-c", STOPPED]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (1, "the run was stopped\n")


STOPPED_LATER = """
import sys
from assay_trainer.learner.ranks import joined
from assay_trainer.stop import Stop, Stopped

stop = Stop()
stop.ask()
try:
    with joined():
        stop.check()
except Stopped as error:
    sys.exit(error.message)
"""


def test_a_stop_ends_the_other_processes_without_a_word() -> None:
    with processes([(sys.executable, "-c", STOPPED_LATER), FOLLOW]) as both:
        said = [one.communicate(timeout=240)[0] for one in both]
    assert [one.returncode for one in both] == [1, 0], said
    assert said == ["the run was stopped\n", ""]


FINISHED = """
from pathlib import Path
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.command import _leave_finished
from assay_trainer.stop import Stop

_leave_finished(RunFolder(Path("some")), Stop())
"""


def test_a_finished_run_lets_the_other_processes_end() -> None:
    with processes([(sys.executable, "-c", FINISHED), FOLLOW]) as both:
        said = [one.communicate(timeout=240)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], said


if __name__ == "__main__":
    if len(sys.argv) > 2:
        lead(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        wait_for_death(Path(sys.argv[1]))
