"""A policy written as a checkpoint folder."""

from pathlib import Path

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.weights import checkpoint
from assay_trainer.weights.safetensors_writer import save_model


def publish_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> str:
    """Write a checkpoint folder in an atomic step and return its digest."""

    def write(partial: Path) -> dict[str, str]:
        tokenizer.save_pretrained(partial)
        return save_model(model, partial)

    return checkpoint.publish(folder, write)
