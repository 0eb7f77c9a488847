"""Policies without skill, in the units of an ablation's metrics."""

from pathlib import Path

import pytest

from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Task
from assay_trainer.ablation.judging import trivial
from assay_trainer.ablation.judging.trivial import KIND, TrivialUnmeasured, trivial_rows
from assay_trainer.checks.baselines import BaselineEarnings
from tests.support.fakes import make_task
from tests.support.or_debug.planted import make_or_task

#: No address answers there.
NOWHERE = ServiceSettings(reward_url="http://127.0.0.1:1")


@pytest.mark.slow
def test_baselines_of_or_debug_are_played_once_and_have_the_metrics_names(tmp_path: Path) -> None:
    tasks: list[Task] = [make_or_task()]
    place = tmp_path / "trivial.json"
    rows = trivial_rows(tasks, "held_out", ("or_faithful", "rr@5", "tokens"), NOWHERE, place)
    found = {(row.policy, row.metric): row.value.value for row in rows}
    assert found["submit_at_once", "rr@5"] == 0.0
    assert found["probe", "or_faithful"] in (0.0, 1.0)
    assert found["drop_all_members", "rr@5"] == 1.0
    assert {row.kind for row in rows} == {KIND}
    assert place.exists()
    again = trivial_rows([], "held_out", ("or_faithful",), NOWHERE, place)
    assert again == rows


def test_equal_rewards_have_an_interval_as_the_start_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def audited(*_: object) -> dict[str, BaselineEarnings]:
        return {"empty": BaselineEarnings([-0.6] * 20, [False] * 20)}

    monkeypatch.setattr(trivial, "audit", audited)
    task = make_task()
    (row,) = trivial_rows([task], "s", ("reward",), NOWHERE, tmp_path / "trivial.json")
    assert row.value.low is not None
    assert row.value.high is not None
    assert row.value.low < row.value.value - 0.01
    assert row.value.high > row.value.value + 0.01


def test_an_environment_without_baselines_is_told(tmp_path: Path) -> None:
    task = make_or_task()
    assert task.environment is not None
    other = task.environment.model_copy(update={"name": "code_repair"})
    changed = task.model_copy(update={"environment": other})
    with pytest.raises(TrivialUnmeasured, match="code_repair"):
        trivial_rows([changed], "s", ("reward",), NOWHERE, tmp_path / "trivial.json")
