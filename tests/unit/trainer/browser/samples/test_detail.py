"""A stored sample has the advantage that the trainer computed for it."""

from pathlib import Path

import pytest

from assay_shared.errors import NotFound
from assay_shared.settings.run_file import load_config
from assay_shared.types import Normalisation
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.browser.samples.detail import SampleDetail, sample_detail, sample_json
from assay_trainer.config import RunConfig
from assay_trainer.learner.packs import rows
from tests.support.browser.stored_runs import DEMO, keep, make_group, make_run

OUTCOMES = (
    ("accepted", "wrong_answer", "failed:judge", "accepted"),
    ("wrong_answer", "accepted", "wrong_answer", "wrong_answer"),
)


def details(
    tmp_path: Path, normalise: Normalisation, config: RunConfig | None = None
) -> list[SampleDetail]:
    run = make_run(tmp_path / "a")
    for number, outcomes in enumerate(OUTCOMES):
        keep(run, 1, make_group(1, number, *outcomes))
    index = RunIndex(run.path, tmp_path / "index")
    index.complete()
    config = config or load_config(RunConfig, DEMO, (f"grpo.normalise={normalise}",))
    keys = [f"run/{number}/family-{number}/{number}/v1/code.dense" for number in (0, 1)]
    return [
        sample_detail(index, config, index.find(key), place) for key in keys for place in range(4)
    ]


@pytest.mark.parametrize("normalise", list(Normalisation))
def test_the_advantage_is_the_one_that_was_trained_on(
    tmp_path: Path, normalise: Normalisation
) -> None:
    groups = [make_group(1, number, *outcomes) for number, outcomes in enumerate(OUTCOMES)]
    expected = [row.advantage for row in rows(groups, normalise)]
    found = [one.advantage for one in details(tmp_path, normalise)]
    assert found[2] is None, "a sample without a score has none"
    assert [one for one in found if one is not None] == pytest.approx(expected)


def test_a_sample_says_why_it_has_no_reward_and_no_advantage(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    keep(run, 1, make_group(1, 0, "wrong_answer", "wrong_answer"), "no_signal")
    failure = make_group(1, 1, "failed:judge").rewards[0].failure  # type: ignore[union-attr]
    keep(run, 1, make_group(1, 1).model_copy(update={"failure": failure}), "failed")
    index = RunIndex(run.path, tmp_path / "index")
    index.complete()
    flat = sample_detail(index, None, index.find("run/0/family-0/0/v1/code.dense"), 1)
    assert (flat.reason, flat.outcome) == ("no_signal", "wrong_answer")
    assert flat.no_advantage == "the group was not trained on"
    whole = sample_detail(index, None, index.find("run/1/family-1/1/v1/code.dense"), -1)
    assert whole.failure is not None
    assert (whole.failure.attempts, whole.rollout, whole.outcome) == (3, None, "failed")
    assert sample_json(whole)["answer"] is None
    with pytest.raises(NotFound, match="the group has 2 samples, and none at place 2"):
        sample_detail(index, None, index.find("run/0/family-0/0/v1/code.dense"), 2)
