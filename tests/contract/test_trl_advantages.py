"""Our advantages next to those that TRL's own trainers compute from the same rewards."""

import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from assay_shared.types import Normalisation
from assay_trainer.learner.advantage import advantages
from assay_trainer.learner.network.model import create_policy
from assay_trainer.learner.normalisation.group_rewards import GroupRewards
from tests.support.policies import TEXTS, TINY

GROUP = 6
WEIGHTS = [1.0, 0.25]


class HashReward:
    """Rewards a text by its hash, from 0 to `most`; None for some texts. Keeps what it gave."""

    def __init__(self, name: str, salt: int, most: float) -> None:
        self.__name__ = name
        self._salt, self._most = salt, most
        self.given: list[float | None] = []

    def __call__(self, completions: Sequence[str], **_: object) -> list[float | None]:
        hashes = [zlib.crc32(text.encode(), self._salt) for text in completions]
        # Both rewards leave out the same texts: ours has no answer with a component alone.
        left_out = [zlib.crc32(text.encode()) % 7 == 0 for text in completions]
        self.given = [
            None if no_reward else self._most * (number % 5) / 4
            for number, no_reward in zip(hashes, left_out, strict=True)
        ]
        return self.given


def trained(folder: Path, kind: str, rewards: list[HashReward], **changes: object) -> list[float]:
    """Return the advantages of one step of a TRL trainer on two prompts."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # TRL warns of its optional parts
        import trl
        from datasets import Dataset

        model, tokenizer = create_policy(TINY, TEXTS, seed=0)
        with torch.no_grad():  # at random weights, all tokens are equally likely
            model.get_parameter("model.embed_tokens.weight").mul_(4.0)
        config: Callable[..., Any] = getattr(trl, f"{kind}Config")
        arguments = config(
            output_dir=str(folder),
            max_steps=1,
            per_device_train_batch_size=2 * GROUP,
            num_generations=GROUP,
            max_completion_length=8,
            beta=0.0,
            reward_weights=WEIGHTS[: len(rewards)],
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            seed=1,
            **changes,
        )
        trainer: Any = getattr(trl, f"{kind}Trainer")(
            model=model,
            args=arguments,
            reward_funcs=rewards,
            train_dataset=Dataset.from_dict({"prompt": ["Add 1.", "Add 2."]}),
            processing_class=tokenizer,
        )
        trainer.train()
    return list(trainer._logs["advantages"])


def ours(normalise: Normalisation, columns: list[list[float | None]]) -> list[float]:
    sums = [
        None if row[0] is None else sum(w * (r or 0.0) for w, r in zip(WEIGHTS, row, strict=False))
        for row in zip(*columns, strict=True)
    ]
    groups = [
        GroupRewards(
            sums[start : start + GROUP],
            normalise,
            WEIGHTS[: len(columns)],
            [column[start : start + GROUP] for column in columns],
        )
        for start in (0, GROUP)
    ]
    return [value or 0.0 for row in advantages(groups) for value in row]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("normalise", "kind", "changes"),
    [
        (Normalisation.GROUP, "GRPO", {"scale_rewards": "group"}),
        (Normalisation.BATCH, "GRPO", {"scale_rewards": "batch"}),
        (Normalisation.NONE, "GRPO", {"scale_rewards": "none"}),
        (
            Normalisation.COMPONENTS,
            "GRPO",
            {"multi_objective_aggregation": "normalize_then_sum"},
        ),
        (Normalisation.RLOO, "RLOO", {"normalize_advantages": False}),
    ],
)
def test_the_advantages_are_those_of_trl(
    tmp_path: Path, normalise: Normalisation, kind: str, changes: dict[str, object]
) -> None:
    rewards = [HashReward("right", 1, 1.0), HashReward("style", 2, 3.0)]
    theirs = trained(tmp_path, kind, rewards, **changes)
    columns = [one.given for one in rewards]
    assert any(value is None for value in columns[0]) or kind == "RLOO"
    assert len({value for value in columns[0] if value is not None}) > 2
    assert theirs == pytest.approx(ours(normalise, columns), abs=1e-4)
