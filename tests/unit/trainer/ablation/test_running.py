"""The order of an ablation's work, and what idle lanes do."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.ablation import running
from assay_trainer.ablation.ablation_folder import AblationFolder
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
#: Arms that cannot run.
UNUSABLE: set[str] = set()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What an ablation does, in order: runs at once, and decompositions."""
    done: list[str] = []

    def run_all(orders: Sequence[RunOrder], *_: Any) -> dict[str, str]:
        done.append(" ".join(one.folder.name for one in orders))
        for one in orders:
            if one.arm not in UNUSABLE:
                (one.folder / "models" / "initial").mkdir(parents=True)
        return {one.arm: "planted" for one in orders if one.arm in UNUSABLE}

    def compute(run: AblationRun, kind: str, arm: str, previous: str = "") -> None:
        if kind == "controls":
            run.folder.controls.write_text(PlantedChanges(run="", controls=[]).model_dump_json())
            return
        done.append(f"{arm} against {previous}")
        found = Decomposition(
            arm=arm,
            previous=previous,
            run="",
            changed={},
            batches=[],
            sampler=None,
            verdict=VERDICTS[arm],
            reason="",
        )
        path = run.folder.decomposition(arm)
        path.parent.mkdir(exist_ok=True)
        path.write_text(found.model_dump_json())

    monkeypatch.setattr(running, "run_all", run_all)
    monkeypatch.setattr(running, "is_finished", lambda folder: (folder / "models").is_dir())
    monkeypatch.setattr(running, "_compute", compute)
    return done


@pytest.fixture
def unusable() -> Iterator[set[str]]:
    """An empty set of the arms that cannot run."""
    yield UNUSABLE
    UNUSABLE.clear()


def begun(tmp_path: Path, num_lanes: int) -> AblationRun:
    plan = read(tmp_path, seeds=[1, 2])
    folder = AblationFolder.create(tmp_path / "ablation", plan)
    return AblationRun(folder, plan, ServiceSettings(), [LANE] * num_lanes, Stop())


def ablate(tmp_path: Path, num_lanes: int) -> list[str]:
    return [one.name for one in run_ablation(begun(tmp_path, num_lanes))]


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


@pytest.mark.parametrize("num_lanes", [2, 3])
def test_an_arm_that_cannot_run_has_failed_and_the_next_is_compared_with_the_one_before(
    tmp_path: Path,
    work: list[str],
    unusable: set[str],
    monkeypatch: pytest.MonkeyPatch,
    num_lanes: int,
) -> None:
    monkeypatch.setitem(VERDICTS, "kl", SwitchVerdict.ACTS)
    unusable.add("kl")
    run = begun(tmp_path, num_lanes)
    assert [one.name for one in run_ablation(run)] == ["first", "rate"]
    assert run.failed == {"kl": "planted"}
    assert "rate against first" in work
    assert ("kl against first" in work) == (num_lanes == 2)
    (told,) = (one for one in run.folder.record.read_events() if one.kind == "arm_failed")
    assert told.data == {"arm": "kl", "reason": "planted"}


def test_an_arm_that_can_run_after_a_repair_is_compared_and_so_is_the_next_one_with_it(
    tmp_path: Path, work: list[str], unusable: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VERDICTS, "kl", SwitchVerdict.ACTS)
    unusable.add("kl")
    run = begun(tmp_path, num_lanes=2)
    run_ablation(run)
    unusable.clear()
    work.clear()
    again = AblationRun(run.folder, run.plan, run.settings, run.lanes, Stop())
    assert [one.name for one in run_ablation(again)] == ["first", "kl", "rate"]
    assert work == ["ablation-kl-s1 ablation-kl-s2", "rate against kl"]
    assert again.failed == {}


@pytest.mark.parametrize(("name", "field"), [("start", None), ("first", "arms.first")])
def test_without_the_start_or_the_first_arm_nothing_can_be_compared(
    tmp_path: Path, work: list[str], unusable: set[str], name: str, field: str | None
) -> None:
    unusable.add(name)
    with pytest.raises(InvalidInput, match="no arm can be compared: planted") as refused:
        ablate(tmp_path, num_lanes=2)
    assert refused.value.field == field
    assert len(work) == (1 if name == "start" else 2)
