"""Compares the engine `transformers` on the CPU with the library's own `generate`, in one process.

    python -m bench.cpu_engine MODEL --output bench/results/cpu_engine.json

Greedy answers of 32 tokens to GSM8K's questions: four in turn, eight at once, and eight in turn
with a long shared beginning (worked examples). Figures are processor seconds of the whole process,
in alternation. A ratio is `generate`'s figure over the engine's of the same round: above 1, the
engine takes less. Every answer of the two is compared.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from assay_inference.engines.transformers.engine import TransformersEngine
from assay_inference.settings import InferenceSettings
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import FolderWeights, PolicyVersion, SamplingParams, WeightUpdate
from assay_shared.weights import checkpoint

_NUM_TOKENS = 32
_NUM_ONE, _NUM_MANY, _NUM_EXAMPLES = 4, 8, 4
Prompts = list[list[int]]
Way = Callable[[Prompts], Awaitable[Prompts]]


def questions() -> list[dict[str, str]]:
    file = next(Path(os.environ["ASSAY_DATA"], "gsm8k").rglob("*test*.jsonl"))
    with file.open() as lines:
        return [json.loads(line) for line in islice(lines, 64)]


class Generate:
    """The library's own loop; answers are cut at their end token, as the engine does."""

    def __init__(self, folder: Path, end_ids: frozenset[int]) -> None:
        self._model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
        self._end_ids = sorted(end_ids)

    @torch.inference_mode()
    def _batch(self, prompts: Prompts) -> Prompts:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        drawn = self._model.generate(  # type: ignore[misc]  # its mixin hides the signature
            ids,
            attention_mask=mask,
            max_new_tokens=_NUM_TOKENS,
            do_sample=False,
            eos_token_id=self._end_ids,
            pad_token_id=self._end_ids[0],
        )
        return [self._cut(row) for row in drawn[:, width:].tolist()]

    def _cut(self, ids: list[int]) -> list[int]:
        ends = [at + 1 for at, token_id in enumerate(ids) if token_id in self._end_ids]
        return ids[: min(ends)] if ends else ids

    async def together(self, prompts: Prompts) -> Prompts:
        return self._batch(prompts)

    async def in_turn(self, prompts: Prompts) -> Prompts:
        return [self._batch([prompt])[0] for prompt in prompts]


class Ours:
    """The engine, called as the service calls it; `renew` clears its cached prefixes."""

    def __init__(self, engine: TransformersEngine, update: WeightUpdate) -> None:
        self._engine = engine
        self._number = update.policy.version
        self._update = update

    async def renew(self) -> None:
        self._number += 1
        policy = self._update.policy.model_copy(update={"version": self._number})
        await self._engine.load(self._update.model_copy(update={"policy": policy}))

    async def _one(self, prompt: list[int]) -> list[int]:
        sampling = SamplingParams(max_tokens=_NUM_TOKENS, temperature=0.0)
        (completion,) = await self._engine.generate(prompt, sampling)
        return list(completion.token_ids)

    async def together(self, prompts: Prompts) -> Prompts:
        return list(await asyncio.gather(*map(self._one, prompts)))

    async def in_turn(self, prompts: Prompts) -> Prompts:
        return [await self._one(prompt) for prompt in prompts]


async def timed(way: Way, prompts: Prompts) -> tuple[float, Prompts]:
    began = time.process_time()
    answers = await way(prompts)
    return time.process_time() - began, answers


async def compare(folder: Path, num_rounds: int) -> dict[str, object]:
    engine = TransformersEngine(InferenceSettings(inference_device="cpu"))
    policy = PolicyVersion(version=0, digest=checkpoint.digest(folder))
    update = WeightUpdate(source=FolderWeights(path=str(folder)), policy=policy)
    await engine.load(update)
    theirs, ours = Generate(folder, engine.vocabulary.end_ids), Ours(engine, update)
    rows = questions()
    asked = [f"Question: {row['question']}\nAnswer:" for row in rows]
    encode = engine.vocabulary.encode
    examples = "\n\n".join(
        f"{text} {row['answer']}" for text, row in zip(asked, rows[:_NUM_EXAMPLES], strict=False)
    )
    further = asked[_NUM_EXAMPLES:]
    cases: dict[str, tuple[Prompts, Way, Way]] = {
        "one at a time": ([encode(x) for x in further[:_NUM_ONE]], theirs.in_turn, ours.in_turn),
        "eight at once": ([encode(x) for x in further[:_NUM_MANY]], theirs.together, ours.together),
        "shared beginning": (
            [encode(f"{examples}\n\n{x}") for x in further[:_NUM_MANY]],
            theirs.in_turn,
            ours.in_turn,
        ),
    }
    results = {}
    for name, (prompts, their_way, our_way) in cases.items():
        rounds, num_equal = [], 0
        for _ in range(num_rounds):
            await ours.renew()
            their_s, expected = await timed(their_way, prompts)
            our_s, found = await timed(our_way, prompts)
            rounds.append({"generate_cpu_s": their_s, "engine_cpu_s": our_s})
            num_equal += sum(a == b for a, b in zip(expected, found, strict=True))
        ratios = [one["generate_cpu_s"] / one["engine_cpu_s"] for one in rounds]
        results[name] = {
            "prompt_tokens": [len(prompt) for prompt in prompts],
            "rounds": rounds,
            "ratio": statistics.median(ratios),
            "ratios": [min(ratios), max(ratios)],
            "equal": num_equal,
            "compared": num_rounds * len(prompts),
        }
        print(name, json.dumps(results[name]), flush=True)
    await engine.close()
    return {"model": folder.name, "new_tokens": _NUM_TOKENS, "cases": results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    quiet_transformers()
    found = asyncio.run(compare(arguments.model, arguments.rounds))
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
