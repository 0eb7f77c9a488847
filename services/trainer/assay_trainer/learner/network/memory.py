"""An estimate of the memory that training needs on each card, from the model's sizes."""

import torch
from pydantic import BaseModel
from transformers import PreTrainedModel

from assay_trainer.learner.network.optimiser import OptimiserName, state_bytes
from assay_trainer.weights.served_dtype import served_dtypes

_FLOAT32, _BF16 = 4, 2
#: The default of ASSAY_WEIGHT_TRANSFER_BUCKET_BYTES.
_BUCKET_BYTES = 2**30


class MemoryEstimate(BaseModel):
    """Bytes on the fullest card, rank 0's; each field has its formula.

    N are all weights, M those that are trained, C the cards, T the tokens of a pack. `b` is the
    size of a number in the forward pass: 2 on a GPU (bf16), 4 on a CPU.
    """

    #: 4 N / C, in float32.
    weights: int
    #: 4 M / C.
    gradients: int
    #: 8 M / C: Adam's two moments. With adamw_8bit, about 2 M: see `optimiser.state_bytes`.
    optimiser: int
    #: What a direct publication has at once: a bucket of gathered weights and up to two buffers
    #: of its size, each of 1 GiB or of N in the served types; 0 on a CPU.
    publication: int
    #: On a CPU, the copy for a checkpoint's writing: 4 M / C, and the optimiser's bytes. A GPU's
    #: copy is in the host's memory.
    checkpoint: int
    #: 4 N / C with a KL term, else 0.
    reference: int
    #: Gathered weights in bf16: 2 N on one GPU; on several, the largest layer and all outside of
    #: the layers; 0 on a CPU.
    gathered: int
    #: b T layers (8 hidden + 4 intermediate), without the head, whose logits come in chunks. On
    #: several GPUs, b T (layers hidden + 8 hidden + 4 intermediate): activations come twice.
    activations: int

    @property
    def total(self) -> int:
        """Return the sum in bytes."""
        return sum(self.model_dump().values())


def estimate_memory(
    model: PreTrainedModel,
    tokens: int,
    num_cards: int,
    *,
    on_gpu: bool,
    has_reference: bool,
    optimiser: OptimiserName = "adamw",
) -> MemoryEstimate:
    """Return the estimate for a pack of `tokens` tokens.

    A sparse model activates other sizes: its `activations` are those of a dense model.
    """
    sizes = {name: weight.numel() for name, weight in model.named_parameters()}
    total, trained = sum(sizes.values()), num_trained(model)
    moments = sum(state_bytes(optimiser, one.numel()) for one in _trained(model)) // num_cards
    types = served_dtypes(model)
    served = sum(
        n * types[name].itemsize if name in types else _FLOAT32 * n for name, n in sizes.items()
    )
    text = model.config.get_text_config()
    layers, hidden = int(text.num_hidden_layers), int(text.hidden_size)
    one_layer = 8 * hidden + 4 * int(getattr(text, "intermediate_size", None) or 4 * hidden)
    is_twice = on_gpu and num_cards > 1
    per_token = layers * hidden + one_layer if is_twice else layers * one_layer
    in_layers = sum(n for name, n in sizes.items() if ".layers." in name)
    gathered = total if num_cards == 1 else total - in_layers + in_layers // layers
    return MemoryEstimate(
        weights=_FLOAT32 * total // num_cards,
        gradients=_FLOAT32 * trained // num_cards,
        optimiser=moments,
        publication=min(_BUCKET_BYTES, served) + min(2 * _BUCKET_BYTES, served) if on_gpu else 0,
        checkpoint=0 if on_gpu else _FLOAT32 * trained // num_cards + moments,
        reference=_FLOAT32 * total // num_cards if has_reference else 0,
        gathered=_BF16 * gathered if on_gpu else 0,
        activations=(_BF16 if on_gpu else _FLOAT32) * tokens * per_token,
    )


def num_trained(model: PreTrainedModel) -> int:
    """Return the number of weights that an update may change."""
    return sum(weight.numel() for weight in _trained(model))


def _trained(model: PreTrainedModel) -> list[torch.nn.Parameter]:
    return [weight for weight in model.parameters() if weight.requires_grad]
