import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen2MoeConfig
from transformers.quantizers.base import HfQuantizer

from assay_shared.errors import InvalidInput
from assay_shared.weights import checkpoint
from assay_trainer.weights import safetensors_writer
from assay_trainer.weights.safetensors_writer import save_model

SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
MIXTURE: dict[str, Any] = SMALL | {
    "moe_intermediate_size": 8,
    "shared_expert_intermediate_size": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}


@pytest.mark.parametrize(
    "config",
    [
        Qwen2Config(**SMALL, tie_word_embeddings=True),
        Qwen2Config(**SMALL, tie_word_embeddings=False, dtype=torch.bfloat16),
        Qwen2MoeConfig(**MIXTURE),
    ],
    ids=["tied", "bfloat16", "experts"],
)
@pytest.mark.parametrize("size", ["1GB", "5KB"])
def test_what_is_written_is_what_the_library_writes(
    config: Qwen2Config, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_writer, "_SHARD_SIZE", size)
    model = AutoModelForCausalLM.from_config(config)
    (tmp_path / "ours").mkdir()
    save_model(model, tmp_path / "ours")
    model.save_pretrained(tmp_path / "theirs", max_shard_size=size)
    ours, theirs = _files(tmp_path / "ours"), _files(tmp_path / "theirs")
    assert ours == theirs
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", dtype="auto")
    assert again.dtype == model.dtype
    assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))


def test_digests_are_those_of_the_files_and_the_index_names_every_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_writer, "_SHARD_SIZE", "5KB")
    model = Qwen2ForCausalLM(Qwen2Config(**SMALL))
    digests = save_model(model, tmp_path)
    files = checkpoint.weight_files(tmp_path)
    assert len(files) > 2
    assert digests == {file.name: checkpoint.file_digest(file) for file in files}
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert {name: file.name for file in files for name in load_file(file)} == index


def test_a_type_that_safetensors_does_not_know_is_refused_by_the_tensors_name(
    tmp_path: Path,
) -> None:
    model = Qwen2ForCausalLM(Qwen2Config(**SMALL))
    model.register_buffer("odd", torch.zeros(2, dtype=torch.complex128))
    with pytest.raises(InvalidInput, match="odd: .*complex128"):
        save_model(model, tmp_path)


def _files(folder: Path) -> dict[str, object]:
    """Return a folder's content, but for the library's release.

    Of the index, the places alone: its totals are the library's.
    """
    found: dict[str, Any] = {file.name: file.read_bytes() for file in folder.iterdir()}
    for name in ("config.json", "generation_config.json"):
        found[name] = json.loads((folder / name).read_text())
        found[name].pop("transformers_version", None)
    index = folder / "model.safetensors.index.json"
    if index.exists():
        found[index.name] = json.loads(index.read_text())["weight_map"]
    return found


class Quantizer(HfQuantizer):
    """Writes all weights in its own form, as those of 4 bits do."""

    def __init__(self) -> None:
        pass

    @property
    def is_trainable(self) -> bool:
        return True

    def is_serializable(self) -> bool:
        return True

    def get_state_dict_and_metadata(self, model: Any) -> tuple[dict[str, torch.Tensor], Any]:
        return model.state_dict(), {}


def test_a_quantised_model_has_no_weights_outside_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_writer, "_SHARD_SIZE", "5KB")
    model = Qwen2ForCausalLM(Qwen2Config(**SMALL))
    model.hf_quantizer = Quantizer()  # type: ignore[assignment]  # the stubs know no such field
    digests = save_model(model, tmp_path)
    assert {file.name for file in checkpoint.weight_files(tmp_path)} == digests.keys()
    assert {file.name for file in tmp_path.glob("*.safetensors")} == digests.keys()


def test_a_policy_has_one_digest_whichever_release_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AutoModelForCausalLM.from_config(Qwen2Config(**SMALL))
    digests = []
    for release in ("5.17.0", "5.19.0"):
        for module in ("configuration_utils", "generation.configuration_utils"):
            monkeypatch.setattr(f"transformers.{module}.__version__", release)
        folder = tmp_path / release
        folder.mkdir()
        save_model(model, folder)
        digests.append({one.name: one.read_bytes() for one in folder.iterdir()})
    assert digests[0] == digests[1]
