"""GRPO in one file: a policy learns the larger of two digits over Assay's services.

    assay up                                                      # in one shell
    . runs/assay.env && python examples/grpo_in_one_file.py       # in another, same folder

The policy is a Llama of 84,000 weights made from scratch. A step samples answers from inference,
scores them with the rubric `math`, takes one optimiser step, and publishes the new weights. The
trainer of Assay does the same with Celery workers, recovery and evaluation.

Shapes: G samples of a group, B samples of a step, T tokens of prompt and answer.
"""

import asyncio
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from assay_shared.clients import InferenceClient, RewardClient
from assay_shared.clients.weight_upload import upload_weights
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_shared.types import (
    Completion,
    GenerateRequest,
    PolicyVersion,
    SamplingParams,
    Scored,
    ScoreRequest,
    Task,
    UploadedWeights,
    WeightUpdate,
)
from assay_shared.weights import checkpoint

NUM_STEPS, NUM_GROUPS, GROUP_SIZE = 80, 16, 16
LEARNING_RATE, CLIP = 3e-3, 0.2


@dataclass(frozen=True)
class Sample:
    """An answer with its advantage over its group."""

    prompt: tuple[int, ...]
    completion: Completion
    advantage: float


def make_policy() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return a new model and its tokenizer of 19 characters."""
    characters = ["</s>", *"0123456789max(,)=", " "]
    words = models.WordLevel({c: i for i, c in enumerate(characters)}, unk_token=" ")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    config = LlamaConfig(
        vocab_size=len(characters),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")
    return LlamaForCausalLM(config), fast


def make_task(rng: random.Random) -> Task:
    """Return a question for the larger of two digits."""
    first, second = rng.sample(range(10), 2)
    return Task(prompt=f"max({first},{second})=", reference=str(max(first, second)))


async def publish(
    inference: InferenceClient,
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    version: int,
) -> None:
    """Upload the weights; return once inference serves them as `version`."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        digest = checkpoint.digest(Path(folder))
        uploaded = await upload_weights(inference, Path(folder))
    source = UploadedWeights(upload=uploaded.id)
    policy = PolicyVersion(version=version, digest=digest)
    await inference.update_weights(WeightUpdate(source=source, policy=policy))


async def run_group(
    inference: InferenceClient, reward: RewardClient, prompt: tuple[int, ...], task: Task
) -> tuple[list[Sample], float]:
    """Return the samples of one task that have a reward, and their mean reward.

    A failed measurement has no reward. Its sample leaves the mean and the loss: as a 0 it would
    train the policy away from an answer that may be right.
    """
    sampling = SamplingParams(n=GROUP_SIZE, max_tokens=1)
    generated = await inference.generate(GenerateRequest(token_ids=prompt, sampling=sampling))
    answers = tuple(c.text for c in generated.completions)
    scored = await reward.score(ScoreRequest(rubric="math", task=task, answers=answers))
    pairs = [
        (completion, found.value)
        for completion, found in zip(generated.completions, scored.rewards, strict=True)
        if isinstance(found, Scored)
    ]
    if not pairs:
        return [], float("nan")
    mean = fmean(value for _, value in pairs)
    deviation = fmean((value - mean) ** 2 for _, value in pairs) ** 0.5
    samples = [Sample(prompt, c, (value - mean) / (deviation + 1e-4)) for c, value in pairs]
    return samples, mean


def grpo_loss(model: LlamaForCausalLM, samples: list[Sample]) -> torch.Tensor:
    """Return the clipped policy-gradient loss (arXiv 2402.03300, equation 3, without KL term)."""
    rows = [(*s.prompt, *s.completion.token_ids) for s in samples]
    length = max(map(len, rows))
    ids_BT = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])
    logprobs_BT = model(input_ids=ids_BT).logits[:, :-1].log_softmax(-1)
    logprobs_BT = logprobs_BT.gather(-1, ids_BT[:, 1:, None]).squeeze(-1)
    losses = []
    for i, sample in enumerate(samples):
        start = len(sample.prompt) - 1
        new_T = logprobs_BT[i, start : start + len(sample.completion.token_ids)]
        ratio_T = (new_T - torch.tensor(sample.completion.logprobs)).exp()
        clipped_T = ratio_T.clamp(1 - CLIP, 1 + CLIP)
        losses.append(-torch.minimum(ratio_T * sample.advantage, clipped_T * sample.advantage))
    return torch.cat(losses).mean()


async def train(num_steps: int, settings: ServiceSettings) -> float:
    """Train a new policy and return the last step's mean reward."""
    torch.manual_seed(0)
    disable_progress_bar()
    rng = random.Random(0)
    model, tokenizer = make_policy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    mean = 0.0
    async with (
        InferenceClient.from_settings(settings) as inference,
        RewardClient.from_settings(settings) as reward,
    ):
        served = (await inference.weight_status()).policy
        first = served.version + 1 if served else 1
        for step in range(num_steps):
            await publish(inference, model, tokenizer, first + step)
            tasks = [make_task(rng) for _ in range(NUM_GROUPS)]
            prompts = [tuple(tokenizer.encode(task.prompt)) for task in tasks]
            groups = await asyncio.gather(
                *(run_group(inference, reward, p, t) for p, t in zip(prompts, tasks, strict=True))
            )
            samples = [sample for group, _ in groups for sample in group]
            if samples:
                optimizer.zero_grad()
                grpo_loss(model, samples).backward()
                optimizer.step()
                mean = fmean(mean for group, mean in groups if group)
            num_failed = NUM_GROUPS * GROUP_SIZE - len(samples)
            print(f"step {step + 1:3d}  mean reward {mean:.2f}  failed {num_failed}", flush=True)
    return mean


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_STEPS
    asyncio.run(train(steps, read_settings(ServiceSettings)))
