"""A curriculum begins with an ablation's winner: its settings and its weights, or it is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import parse_config
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.winner import AblationWinner, load_run, with_winner
from tests.support.policies import make_policy_folder

OVERRIDES = {"grpo.kl_weight": 0.0, "grpo.clip_high": 0.3}


def ablation(folder: Path, **changes: Any) -> Path:
    digest = make_policy_folder(folder / "start")
    values = {
        "arm": "asymmetric",
        "verdict": "PASS",
        "start_folder": "start",
        "digest": digest,
        "overrides": OVERRIDES,
        "arms": {"baseline": {"grpo.kl_weight": 0.001}, "asymmetric": OVERRIDES},
    }
    told = AblationWinner.model_validate(values | changes)
    written = told.model_dump(mode="json") | {"settings_digest": told.computed_digest}
    (folder / "winner.json").write_text(json.dumps(written))
    return folder


def run_file(folder: Path, source: Path, **changes: Any) -> Path:
    values: dict[str, Any] = {
        "data": {
            "train": {"kind": "generated", "num_tasks": 20},
            "held_out": {"kind": "generated", "num_tasks": 20},
        },
        "grpo": {"steps": 4},
        "curriculum": {
            "from": str(source),
            "stages": [{"name": "one", "where": {"domain": "code"}, "steps": 4}],
        },
    }
    for key, value in changes.items():
        values[key] = values.get(key, {}) | value if isinstance(value, dict) else value
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_settings_and_start_of_the_winner_are_used(tmp_path: Path) -> None:
    source = ablation(tmp_path)
    config = load_run(run_file(tmp_path, source), ("grpo.group_size=4",))
    assert config.grpo is not None
    assert (config.grpo.clip_high, config.grpo.kl_weight, config.grpo.group_size) == (0.3, 0.0, 4)
    assert config.policy.folder == source / "start"
    assert config.curriculum is not None
    assert config.curriculum.winner is not None
    assert config.curriculum.winner.arm == "asymmetric"
    written = config.model_dump(mode="json")
    assert written["curriculum"]["from"] == str(source)
    assert parse_config(RunConfig, written, source="config.json") == config
    assert with_winner(written) == written, "a resume reads no winner"


def test_the_winner_may_lie_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(ablation(tmp_path)))
    config = load_run(run_file(tmp_path, Path("~")))
    assert config.policy.folder == tmp_path / "start"
    again = load_run(run_file(tmp_path, Path("~"), policy={"folder": "~/start"}))
    assert again.policy.folder == tmp_path / "start"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("~nobody-of-this-name/a", "names a home folder that is not there; .*, not '~nobody"),
        (["a"], r"must be the folder of an ablation, not \['a'\]"),
        (5, "must be the folder of an ablation, not 5"),
    ],
)
def test_what_is_not_a_folder_is_refused(tmp_path: Path, given: object, message: str) -> None:
    file = run_file(tmp_path, tmp_path, curriculum={"from": given})
    with pytest.raises(ConfigError, match=rf"curriculum\.from: {message}"):
        load_run(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grpo": {"clip_high": 0.4}}, r"grpo\.clip_high: the arm asymmetric has 0\.3, .* 0\.4"),
        ({"policy": {"folder": "/elsewhere"}}, r"policy\.folder: /elsewhere is not .*start"),
        ({"policy": {"new": {}}}, r"policy\.new: .* brings the first weights"),
        ({"sft": {"steps": 3}}, r"sft: the ablation's start is trained already"),
    ],
)
def test_a_run_file_that_says_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_run(run_file(tmp_path, ablation(tmp_path), **changes))


def test_without_a_winner_an_arm_has_to_be_named(tmp_path: Path) -> None:
    source = ablation(tmp_path, arm=None, overrides={}, verdict="INCONCLUSIVE: two seeds")
    file = run_file(tmp_path, source)
    with pytest.raises(ConfigError, match=r"no arm of .* has won: INCONCLUSIVE: two seeds.*curr"):
        load_run(file)
    config = load_run(file, ("curriculum.arm=baseline",))
    assert config.grpo is not None
    assert config.grpo.kl_weight == 0.001
    with pytest.raises(ConfigError, match=r"curriculum\.arm: .* has no arm 'third'.*baseline"):
        load_run(file, ("curriculum.arm=third",))


def test_another_start_than_the_ablation_s_is_refused(tmp_path: Path) -> None:
    source = ablation(tmp_path, digest="0" * 64)
    with pytest.raises(ConfigError, match=r"is not the ablation's start: its digest is"):
        load_run(run_file(tmp_path, source))
    with pytest.raises(ConfigError, match=r"winner\.json cannot be read.*assay ablate --winner"):
        load_run(run_file(tmp_path, tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "change",
    [
        {"overrides": {"grpo.learning_rate": 0.9}},
        {"arms": {"baseline": {"grpo.learning_rate": 0.9}, "asymmetric": OVERRIDES}},
        {"arm": "baseline"},
        {"start_folder": "elsewhere"},
        {"settings_digest": ""},
    ],
)
def test_a_winner_that_was_changed_by_hand_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    source = ablation(tmp_path)
    path = source / "winner.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=r"curriculum\.from: .*is not as the ablation wrote it"):
        load_run(run_file(tmp_path, source))
