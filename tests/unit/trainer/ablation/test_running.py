"""The order of an ablation's work, and what idle lanes do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay_shared.settings.environment import ServiceSettings
from assay_trainer.ablation import running
from assay_trainer.ablation.ablation_folder import AblationFolder
from assay_trainer.ablation.arms import AblationArm
from assay_trainer.ablation.decomposition.findings import (
    Decomposition,
    PlantedChanges,
    SwitchVerdict,
)
from assay_trainer.ablation.running import AblationRun, run_ablation
from assay_trainer.ablation.runs import RunOrder
from assay_trainer.stop import Stop
from tests.unit.trainer.ablation.test_arms import read

LANE: Mapping[str, str] = {}
#: Of the arms of `read`, the gradient of `kl` is the first arm's.
VERDICTS = {"kl": SwitchVerdict.NO_EFFECT, "rate": SwitchVerdict.ACTS}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What an ablation does, in order: runs at once, and decompositions."""
    done: list[str] = []

    def run_all(orders: Sequence[RunOrder], *_: Any) -> None:
        done.append(" ".join(one.folder.name for one in orders))
        for one in orders:
            (one.folder / "models" / "initial").mkdir(parents=True)

    def decomposition(_: AblationRun, arm: AblationArm, previous: AblationArm) -> Decomposition:
        done.append(f"{arm.name} against {previous.name}")
        return Decomposition(
            arm=arm.name,
            previous=previous.name,
            run="",
            changed={},
            batches=[],
            sampler=None,
            verdict=VERDICTS[arm.name],
            reason="",
        )

    monkeypatch.setattr(running, "run_all", run_all)
    monkeypatch.setattr(running, "is_finished", lambda folder: (folder / "models").is_dir())
    monkeypatch.setattr(running, "_controls", lambda *_: PlantedChanges(run="", controls=[]))
    monkeypatch.setattr(running, "_decomposition", decomposition)
    return done


def ablate(tmp_path: Path, num_lanes: int) -> list[str]:
    plan = read(tmp_path, seeds=[1, 2])
    folder = AblationFolder.create(tmp_path / "ablation", plan)
    run = AblationRun(folder, plan, ServiceSettings(), [LANE] * num_lanes, Stop())
    return [one.name for one in run_ablation(run)]


FIRST = ["ablation-start", "ablation-first-s1 ablation-first-s2"]


def test_an_arm_is_trained_once_its_gradients_differ(tmp_path: Path, work: list[str]) -> None:
    assert ablate(tmp_path, num_lanes=2) == ["first", "rate"]
    assert work == [
        *FIRST,
        "kl against first",
        "rate against first",
        "ablation-rate-s1 ablation-rate-s2",
    ]


def test_idle_lanes_train_all_further_arms_and_compare_the_same(
    tmp_path: Path, work: list[str]
) -> None:
    assert ablate(tmp_path, num_lanes=3) == ["first", "rate"]
    assert work == [
        *FIRST,
        "ablation-kl-s1 ablation-kl-s2 ablation-rate-s1 ablation-rate-s2",
        "kl against first",
        "rate against first",
    ]
