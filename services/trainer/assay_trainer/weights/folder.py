"""A policy written as a checkpoint folder."""

from collections.abc import Mapping
from pathlib import Path

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.weights import checkpoint
from assay_trainer.weights.adapter import FOLDER, bare, has_adapter, save_adapter
from assay_trainer.weights.safetensors_writer import save_model


def publish_policy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    twins: Mapping[str, Path] | None = None,
) -> str:
    """Write a checkpoint folder in an atomic step and return its digest.

    An adapter is merged, and lies also in the folder `adapter` within. Weights that equal one of
    `twins`, files by their SHA-256, take no further room.
    """
    network = bare(model)

    def write(partial: Path) -> dict[str, str]:
        tokenizer.save_pretrained(partial)
        if has_adapter(network):
            (partial / FOLDER).mkdir()
            save_adapter(network, partial / FOLDER)
        return save_model(network, partial)

    return checkpoint.publish(folder, write, twins=twins)
