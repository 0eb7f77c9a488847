"""An estimate of the memory that training needs on each card, from the model's sizes."""

from dataclasses import dataclass

import torch
from pydantic import BaseModel
from transformers import PretrainedConfig, PreTrainedModel

from assay_trainer.config import LoRAConfig
from assay_trainer.learner.network.optimiser import OptimiserName, state_bytes
from assay_trainer.weights.served_dtype import served_dtypes

_FLOAT32, _BF16 = 4, 2
#: Of a weight in nf4: 4 bits, and a scale in float32 for 64 weights.
_NF4 = 0.5 + _FLOAT32 / 64
#: Sizes of a tile of TRL's head, and the tiles that exist together without its kernel for GPUs.
_TILE_TOKENS, _TILE_WORDS, _CPU_TILES = 4096, 32768, 9
#: The default of ASSAY_WEIGHT_TRANSFER_BUCKET_BYTES.
_BUCKET_BYTES = 2**30


@dataclass(frozen=True)
class Training:
    """What an update does with a model, as far as memory grows with it."""

    #: Tokens of a forward pass.
    tokens: int
    num_cards: int = 1
    on_gpu: bool = False
    lora: LoRAConfig | None = None
    #: Whether a KL term compares with another policy.
    has_reference: bool = False
    optimiser: OptimiserName = "adamw"
    #: Whether weights are published and checkpoints written while training continues: in GRPO.
    is_grpo: bool = True
    #: Whether activations are computed twice, so that few of them are kept.
    is_twice: bool = False


class MemoryEstimate(BaseModel):
    """Bytes on the fullest card, rank 0's; each field has its formula.

    N are all weights of the model, M those that are trained (N, or the adapter's), C the cards, T
    the tokens of a forward pass. `b` is the size of a number in the forward pass: 2 on a GPU
    (bf16), 4 on a CPU. With an adapter, C is 1 here: each card has all of the model.
    """

    #: 4 N / C, in float32. With an adapter: N in the types of publication (float32 on a CPU), with
    #: nf4 0.5625 bytes for each weight of a linear layer but the head; and 4 M.
    weights: int
    #: 4 M / C.
    gradients: int
    #: 8 M / C: Adam's two moments. With adamw_8bit, about 2 M: see `optimiser.state_bytes`.
    optimiser: int
    #: What a direct publication has at once: a bucket of gathered weights and up to two buffers
    #: of its size, each of 1 GiB or of N in the types of publication; 0 on a CPU, in SFT and DPO,
    #: and with an adapter.
    publication: int
    #: On a CPU, the copy for a checkpoint's writing in GRPO: 4 M / C, and the optimiser's bytes. A
    #: GPU's copy is in the host's memory.
    checkpoint: int
    #: 4 N / C with a KL term, else 0. With an adapter 0: it is the base with the adapter off.
    reference: int
    #: Gathered weights in bf16: 2 N on one GPU; on several, the largest layer and all outside of
    #: the layers; with an adapter 2 M; 0 on a CPU.
    gathered: int
    #: b T layers (9 hidden + 4 intermediate). Where activations come twice, b T (layers hidden
    #: + 9 hidden + 4 intermediate).
    activations: int
    #: A tile of the head's logits, of at most 4096 tokens and 32768 words: 4 bytes a number on a
    #: CPU, 9 times; `b` bytes on a GPU, once.
    logits: int

    @property
    def total(self) -> int:
        """Return the sum in bytes."""
        return sum(self.model_dump().values())


def estimate_memory(model: PreTrainedModel, training: Training) -> MemoryEstimate:
    """Return the estimate for a model without an adapter, which `training.lora` puts into it.

    A sparse model activates other sizes: its `activations` are those of a dense model.
    """
    sizes = {name: weight.numel() for name, weight in model.named_parameters()}
    total, lora, on_gpu = sum(sizes.values()), training.lora, training.on_gpu
    each = _trained_sizes(model, lora)
    trained = sum(each)
    cards = training.num_cards if lora is None else 1
    served = _served_bytes(model, sizes)
    if lora is None:
        weights, gathered = _FLOAT32 * total // cards, _gathered(model, sizes, cards)
    else:
        base = _nf4_bytes(model, sizes, served) if lora.nf4 else served
        weights = (base if on_gpu else _FLOAT32 * total) + _FLOAT32 * trained
        gathered = _BF16 * trained
    moments = sum(state_bytes(training.optimiser, size) for size in each) // cards
    publishes = training.is_grpo and on_gpu and lora is None
    copies = training.is_grpo and not on_gpu
    has_reference = training.has_reference and lora is None
    return MemoryEstimate(
        weights=weights,
        gradients=_FLOAT32 * trained // cards,
        optimiser=moments,
        publication=_publication(served) if publishes else 0,
        checkpoint=_FLOAT32 * trained // cards + moments if copies else 0,
        reference=_FLOAT32 * total // cards if has_reference else 0,
        gathered=gathered if on_gpu else 0,
        activations=(_BF16 if on_gpu else _FLOAT32) * _activated(model, training),
        logits=_tile(model, training),
    )


def saved_by_a_layer(model: PreTrainedModel, training: Training) -> int:
    """Return the bytes of a layer's activations, less those kept to compute the others twice."""
    kept, twice = _activated_by_a_layer(model)
    return (_BF16 if training.on_gpu else _FLOAT32) * training.tokens * (kept - twice)


def num_trained(model: PreTrainedModel, lora: LoRAConfig | None = None) -> int:
    """Return the number of weights that an update may change: the model's, or its adapter's."""
    return sum(_trained_sizes(model, lora))


def _trained_sizes(model: PreTrainedModel, lora: LoRAConfig | None) -> list[int]:
    """Return the entries of each trained tensor."""
    if lora is None:
        return [weight.numel() for weight in model.parameters() if weight.requires_grad]
    wanted = None if isinstance(lora.targets, str) else set(lora.targets)
    return [
        lora.rank * size
        for name, layer in _linear_layers(model).items()
        if wanted is None or name.rpartition(".")[2] in wanted
        for size in (layer.in_features, layer.out_features)
    ]


def _linear_layers(model: PreTrainedModel) -> dict[str, torch.nn.Linear]:
    """Return the linear layers but the head by name."""
    head = model.get_output_embeddings()
    return {
        name: one
        for name, one in model.named_modules()
        if isinstance(one, torch.nn.Linear) and one is not head
    }


def _served_bytes(model: PreTrainedModel, sizes: dict[str, int]) -> int:
    types = served_dtypes(model)
    return sum(
        n * types[name].itemsize if name in types else _FLOAT32 * n for name, n in sizes.items()
    )


def _publication(served: int) -> int:
    return min(_BUCKET_BYTES, served) + min(2 * _BUCKET_BYTES, served)


def _nf4_bytes(model: PreTrainedModel, sizes: dict[str, int], served: int) -> int:
    quantised = {f"{name}.weight" for name in _linear_layers(model)} & sizes.keys()
    few = {name: sizes[name] for name in quantised}
    return served - _served_bytes(model, few) + int(_NF4 * sum(few.values()))


def _gathered(model: PreTrainedModel, sizes: dict[str, int], cards: int) -> int:
    total = sum(sizes.values())
    in_layers = sum(n for name, n in sizes.items() if ".layers." in name)
    layers = int(_text(model).num_hidden_layers)
    return _BF16 * (total if cards == 1 else total - in_layers + in_layers // layers)


def _tile(model: PreTrainedModel, training: Training) -> int:
    """Return the bytes of a tile of logits with what the gradient of it needs."""
    numbers = min(training.tokens, _TILE_TOKENS) * min(int(_text(model).vocab_size), _TILE_WORDS)
    return numbers * (_BF16 if training.on_gpu else _CPU_TILES * _FLOAT32)


def _activated(model: PreTrainedModel, training: Training) -> int:
    """Return the numbers that a forward pass keeps for the gradient."""
    layers = int(_text(model).num_hidden_layers)
    kept, hidden = _activated_by_a_layer(model)
    per_token = layers * hidden + kept if training.is_twice else layers * kept
    return training.tokens * per_token


def _activated_by_a_layer(model: PreTrainedModel) -> tuple[int, int]:
    """Return the kept numbers of a layer for a token, and those to compute the others twice."""
    text = _text(model)
    hidden = int(text.hidden_size)
    return 9 * hidden + 4 * int(getattr(text, "intermediate_size", None) or 4 * hidden), hidden


def _text(model: PreTrainedModel) -> PretrainedConfig:
    return model.config.get_text_config()
