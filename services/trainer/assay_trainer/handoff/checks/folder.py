"""Checks of the weights and of config.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay_shared.errors import WeightsRefused
from assay_trainer.handoff.checks.check import FolderUse, HandoffCheck, judged, skipped
from assay_trainer.handoff.engines.answers import FolderAccount
from assay_trainer.handoff.engines.transformers_child import used_ids
from assay_trainer.handoff.writing.tensors import PlannedTensor, WrittenWeights, embedding_of

#: A tokenizer with fewer ids than this share of the rows is taken for another model's.
_LEAST_USED = 0.9


def check_tokenizer(
    folder: Path, weights: Mapping[str, PlannedTensor], own: Path | None = None
) -> None:
    """Check before anything is written that the tokenizer is the model's.

    Args:
        own: a folder with a tokenizer of the checkpoint; each of its tokens must keep its id.

    Raises:
        WeightsRefused: it cannot be read, its ids do not fit the embedding's rows, or they are not
            those of the checkpoint's own tokenizer.
    """
    vocabulary = used_ids(_tokenizer(folder))
    if own is not None and own != folder:
        _check_same_ids(folder, vocabulary, own)
    embedding = embedding_of(weights)
    if not vocabulary:
        raise WeightsRefused(f"the tokenizer of {folder} has no tokens")
    if embedding is None:
        return
    one = weights[embedding]
    rows = one.header.shape[0]
    largest = max(vocabulary.values())
    if largest >= rows:
        token = next(text for text, number in vocabulary.items() if number == largest)
        raise WeightsRefused(
            f"the tokenizer of {folder} has ids up to {largest} ({token!r}), and {embedding} in "
            f"{one.file} has {rows} rows",
            hint="it is another model's tokenizer, or tokens were added without new rows: name "
            "the model's own with --tokenizer",
        )
    if len(vocabulary) < _LEAST_USED * rows:
        raise WeightsRefused(
            f"the tokenizer of {folder} has {len(vocabulary)} ids, and {embedding} in {one.file} "
            f"has {rows} rows",
            hint="it is another model's tokenizer: name the model's own with --tokenizer",
        )


def architecture(config: Mapping[str, Any], found: FolderAccount) -> HandoffCheck:
    """Check that config.json names the class that transformers makes of it."""
    named = config.get("architectures") or []
    return judged(
        "architecture",
        found.model_class in named,
        f"config.json names {', '.join(map(str, named)) or 'no class'}; "
        f"transformers loads {found.model_class}",
        (FolderUse.VLLM,),
    )


def parameters(
    found: FolderAccount, weights: WrittenWeights, config: Mapping[str, Any]
) -> HandoffCheck:
    """Check that every weight of the network is in the files, and no other one."""
    if config.get("quantization_config"):
        return skipped("parameters", "quantized weights are packed: they cannot be counted")
    sets = {
        "missing": found.missing,
        "unknown": found.unexpected,
        "of another shape": found.mismatched,
    }
    wrong = [f"{len(names)} {kind}: {names[0]}" for kind, names in sets.items() if names]
    holds = not wrong and found.num_parameters == found.num_expected
    tied = f", and {', '.join(weights.tied)} once more" if weights.tied else ""
    evidence = [
        f"the files have {weights.num_entries:,} in {weights.num_tensors} tensors",
        f"config.json expects {found.num_expected:,}",
        f"transformers loads {found.num_parameters:,}",
        f"the source has {weights.num_source_entries:,}{tied and ' with a tied copy'}",
    ]
    return judged("parameters", holds, "; ".join([*evidence, *wrong]))


def finite_weights(weights: WrittenWeights) -> HandoffCheck:
    """Tell that no weight is infinite or not a number: writing refuses such weights."""
    types = ", ".join(f"{number:,} in {name}" for name, number in sorted(weights.dtypes.items()))
    return judged("finite weights", True, f"all entries are finite: {types}")


def vocabulary(config: Mapping[str, Any], found: FolderAccount) -> HandoffCheck:
    """Check that config.json, the embedding and the tokenizer agree on the token ids."""
    text: Any = config.get("text_config") or {}
    size = config.get("vocab_size", text.get("vocab_size"))
    rows = found.num_embeddings
    holds = size == rows and found.largest_id < rows
    spare = rows - found.num_tokens
    evidence = (
        f"config.json says {size}, the embedding has {rows} rows, the tokenizer has "
        f"{found.num_tokens} ids up to {found.largest_id}"
    )
    return judged(
        "vocabulary", holds, evidence + (f"; {spare} rows have no token" if spare else "")
    )


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    auto: Any = AutoTokenizer
    try:
        return auto.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
        raise WeightsRefused(f"the tokenizer of {folder} cannot be read: {error!s:.300}") from None


def _check_same_ids(folder: Path, vocabulary: Mapping[str, int], own: Path) -> None:
    """Refuse a tokenizer that gives a token of the checkpoint's own tokenizer another id."""
    for text, number in used_ids(_tokenizer(own)).items():
        if vocabulary.get(text) != number:
            raise WeightsRefused(
                f"the tokenizer of {folder} gives {text!r} the id {vocabulary.get(text)}, and that "
                f"of {own} gives it {number}: it is another model's tokenizer",
                hint="keep the checkpoint's tokenizer: the model knows its ids",
            )


def written_files(digests: Mapping[str, str], intended: Mapping[str, str]) -> HandoffCheck:
    """Check that the disk has the weights that were written."""
    differing = sorted(name for name, one in intended.items() if digests.get(name) != one)
    evidence = f"{len(digests)} files have a SHA-256 in handoff.json"
    if differing:
        evidence = f"{differing[0]} is not on the disk as it was written"
    return judged("files", not differing, evidence)
