"""Tiny policies for tests: random weights, a tokenizer trained on a few lines."""

from pathlib import Path

import torch
from tokenizers.processors import TemplateProcessing
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_inference.engines.engine import ResolvedUpdate
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import FolderWeights, LogprobProbe, PolicyVersion, SyncMode
from assay_trainer.config import NewPolicyConfig
from assay_trainer.learner.network.model import create_policy, train_tokenizer
from assay_trainer.weights.folder import publish_policy

TEXTS = [
    f"Write solve(x). Return x {word} {n}.\ndef solve(x):\n    return x {sign} {n}\n"
    for n in range(30)
    for word, sign in (("plus", "+"), ("minus", "-"), ("times", "*"))
]
TINY = NewPolicyConfig(
    vocabulary_size=320,
    hidden_size=32,
    intermediate_size=64,
    num_layers=2,
    num_heads=2,
    context_length=128,
)
#: Heads of 64, the least that every engine takes.
SERVABLE = TINY.model_copy(update={"hidden_size": 128})


def make_llama_tokenizer() -> PreTrainedTokenizerBase:
    """Return a tokenizer with a token before each text, as Llama 3's."""
    tokenizer = train_tokenizer(TEXTS, 320)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    pair = (tokenizer.bos_token, tokenizer.bos_token_id)
    rules = tokenizer.backend_tokenizer
    rules.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[pair])
    return tokenizer


def make_policy_folder(
    folder: Path, seed: int = 0, sharpness: float = 8.0, config: NewPolicyConfig = TINY
) -> str:
    """Publish a random policy as `folder`; its digest.

    Without sharpening, the logits of random weights are nearly equal and tests could pass by luck.
    """
    model, tokenizer = create_policy(config, TEXTS, seed)
    with torch.no_grad():
        model.get_parameter("model.embed_tokens.weight").mul_(sharpness)
    return publish_policy(model, tokenizer, folder)


def make_policy_folders(
    root: Path, num: int, sharpness: float = 8.0, config: NewPolicyConfig = TINY
) -> list[Path]:
    """Return policies of the same shape and different weights."""
    quiet_transformers()
    folders = [root / f"v{seed}" for seed in range(num)]
    for seed, folder in enumerate(folders):
        make_policy_folder(folder, seed, sharpness, config)
    return folders


def update_of(
    folder: Path,
    policy: PolicyVersion,
    probe: LogprobProbe | None = None,
    mode: SyncMode = SyncMode.WAIT,
) -> ResolvedUpdate:
    """Announces `folder` as `policy`."""
    source = FolderWeights(path=str(folder))
    return ResolvedUpdate(source=source, policy=policy, probe=probe, mode=mode)
