"""A checkpoint without a weight of its network is refused before anything is written."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import WeightsRefused
from assay_trainer.handoff.checks.names import check_names
from assay_trainer.handoff.writing.files import read_config
from assay_trainer.handoff.writing.tensors import PlannedTensor, read_weights
from tests.support.policies import make_policy_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names") / "policy"
    make_policy_folder(folder)
    return folder


@pytest.fixture
def weights(folder: Path) -> dict[str, PlannedTensor]:
    return read_weights(folder, None)


def test_a_whole_checkpoint_passes(folder: Path, weights: dict[str, PlannedTensor]) -> None:
    check_names(folder, read_config(folder), weights)


@pytest.mark.parametrize("lost", ["q_proj", "embed_tokens", "model.norm", "layers.0"])
def test_a_lost_weight_is_named(folder: Path, weights: dict[str, PlannedTensor], lost: str) -> None:
    kept = {name: one for name, one in weights.items() if lost not in name}
    with pytest.raises(WeightsRefused, match=rf"has no .*{lost}"):
        check_names(folder, read_config(folder), kept)


def test_a_copy_of_a_tied_weight_stands_for_it(
    folder: Path, weights: dict[str, PlannedTensor]
) -> None:
    config = read_config(folder)
    assert config["tie_word_embeddings"]
    head = weights.pop("model.embed_tokens.weight")
    check_names(folder, config, weights | {"lm_head.weight": head})


def test_layers_that_config_json_counts_are_not_built(
    folder: Path, weights: dict[str, PlannedTensor]
) -> None:
    config = read_config(folder) | {"num_hidden_layers": 10**9}
    with pytest.raises(WeightsRefused, match="has no layer 2"):
        check_names(folder, config, weights)


def test_names_of_another_scheme_are_left_to_the_loading(
    folder: Path, weights: dict[str, PlannedTensor], tmp_path: Path
) -> None:
    bare = {name.removeprefix("model."): one for name, one in weights.items()}
    check_names(folder, read_config(folder), bare)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such"}))
    check_names(tmp_path, {}, weights)
