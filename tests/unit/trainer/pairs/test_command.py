"""`assay data pairs` and `assay data pairs-check`, as a user calls them."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.types import Role
from assay_trainer.data_commands.command import app
from tests.support.evaluations import RIGHT, WRONG, make_answer, sampled, write_evaluation


@pytest.fixture
def evaluation(tmp_path: Path) -> str:
    sets = {"p": {"a": (RIGHT, WRONG, WRONG), "b": (WRONG, RIGHT, RIGHT)}}
    options = {"protocol": sampled(3), "role": Role.TRAIN, "sample": make_answer}
    return str(write_evaluation(tmp_path / "e", sets, **options))  # type: ignore[arg-type]


def test_pairs_are_made_and_checked(
    evaluation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, checked = str(tmp_path / "pairs"), str(tmp_path / "checked")
    options = ["--per-prompt", "k-1", "--cap", "wrong_answer=2", "--max-similarity", "1"]
    app(["pairs", evaluation, "--output", pairs, *options], standalone_mode=False)
    told = capsys.readouterr().out
    assert "wrong answer 2" in told
    assert f"pairs: {pairs}" in told
    app(["pairs-check", pairs, "--by", "scores", "--output", checked], standalone_mode=False)
    assert "label agreement      1 (" in capsys.readouterr().out
    overall = json.loads((tmp_path / "checked" / "metrics.json").read_text())["overall"]
    assert overall["judged"]["agrees"] == 2


def test_options_that_do_not_fit_are_named(evaluation: str, tmp_path: Path) -> None:
    output = ["--output", str(tmp_path / "out")]
    with pytest.raises(InvalidInput, match="is not a bound"):
        app(["pairs", evaluation, *output, "--confident", "sure"], standalone_mode=False)
    with pytest.raises(InvalidInput, match="go with --by reward"):
        app(["pairs-check", evaluation, *output, "--rubric", "qa"], standalone_mode=False)
