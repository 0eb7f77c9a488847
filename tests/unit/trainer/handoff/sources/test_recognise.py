"""Checkpoints are known by their files; a folder of another kind is refused by name."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import InvalidInput, NotFound, WeightsRefused
from assay_trainer.handoff.sources.recognise import recognise
from assay_trainer.handoff.sources.source import SourceKind
from assay_trainer.learner import checkpoint
from tests.support.policies import make_policy_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "a policy"
    make_policy_folder(folder)
    return folder


def make_adapter(folder: Path, base: str | None) -> Path:
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": base}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


def make_run(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"config": {}, "git_commit": None}))
    return folder


def test_a_folder_of_hugging_face_is_its_own_tokenizer(model: Path) -> None:
    found = recognise(model)
    assert (found.kind, found.tokenizer, found.run) == (SourceKind.FOLDER, model, None)


def test_a_run_means_the_model_of_its_last_finished_stage(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for stage in ("initial", "sft"):
        make_policy_folder(run / "models" / stage)
        checkpoint.seal(run / "models" / stage)
    make_policy_folder(run / "models" / "grpo")  # without its seal, it may be half a model
    found = recognise(run)
    assert (found.path, found.run) == (run / "models" / "sft", run)
    assert recognise(run / "models" / "sft").run == run.resolve()


def test_a_model_of_a_run_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run") / "models" / "sft"
    make_policy_folder(folder)
    checkpoint.seal(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(WeightsRefused, match=r"config\.json is not what was written"):
        recognise(folder)


def test_a_run_without_a_finished_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no stage of the run .* has finished"):
        recognise(make_run(tmp_path / "run"))


def test_an_adapter_has_the_base_that_it_names_or_the_given_one(
    model: Path, tmp_path: Path
) -> None:
    named = recognise(make_adapter(tmp_path / "named", str(model)))
    assert (named.kind, named.base, named.tokenizer) == (SourceKind.ADAPTER, model, model)
    other = make_adapter(tmp_path / "other", "someone/unknown-model")
    with pytest.raises(InvalidInput, match="someone/unknown-model, which is not on this machine"):
        recognise(other)
    assert recognise(other, base=model).base == model


def test_a_base_goes_with_an_adapter_alone(model: Path) -> None:
    with pytest.raises(InvalidInput, match="--base.*it has no base"):
        recognise(model, base=model)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["model_world_size_2_rank_0.pt"], "has no model_world_size_2_rank_1.pt"),
        (["model_world_size_2_rank_0.pt", "model_world_size_1_rank_0.pt"], "several world sizes"),
    ],
)
def test_shards_of_all_ranks_are_needed(tmp_path: Path, names: list[str], message: str) -> None:
    (tmp_path / "huggingface").mkdir()
    (tmp_path / "huggingface" / "config.json").write_text("{}")
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(WeightsRefused, match=message):
        recognise(tmp_path)


def test_shards_without_a_configuration_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model_world_size_1_rank_0.pt").write_bytes(b"")
    with pytest.raises(WeightsRefused, match=r"no huggingface/config\.json"):
        recognise(tmp_path)


def test_an_empty_folder_says_what_a_checkpoint_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is empty: it is not a Hugging Face folder, a run"):
        recognise(tmp_path)
    with pytest.raises(NotFound, match="there is no folder"):
        recognise(tmp_path / "nowhere")


def test_a_checkpoint_without_a_tokenizer_is_refused(model: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((model / name).read_bytes())
    with pytest.raises(InvalidInput, match="--tokenizer: .* has no tokenizer"):
        recognise(bare)
    found = recognise(bare, tokenizer=model)
    assert (found.tokenizer, found.replaced_tokenizer) == (model, None)


def test_a_tokenizer_in_place_of_the_checkpoints_own_is_known(model: Path, tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "other")
    found = recognise(model, tokenizer=tmp_path / "other")
    assert (found.tokenizer, found.own_tokenizer) == (tmp_path / "other", model)
    assert recognise(model, tokenizer=model).replaced_tokenizer is None
