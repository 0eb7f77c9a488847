"""TRL's own GRPOTrainer with the reward service behind it, and a sandbox behind that."""

import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import InvalidInput, Unreachable
from assay_trainer.learner.advantage import advantages
from assay_trainer.learner.network.model import create_policy
from assay_trainer.learner.normalisation.group_rewards import GroupRewards
from tests.conftest import Serve
from tests.support.examples import load_example
from tests.support.faulty_sandbox import create_faulty_sandbox
from tests.support.policies import TEXTS, TINY

NOWHERE = "http://127.0.0.1:9"
GROUP = 6
STEPS = 3
#: Whatever stands in one line after the prefix is a comment, and then the program is right.
LABEL = (
    '{"code_prefix": "def f(x):\\n    return x\\n\\n#", "rubric": "code.sparse",'
    ' "tests": [{"kind": "call", "function": "f", "args": [1], "expected": 1}]}'
)


@pytest.fixture
def example() -> ModuleType:
    return load_example("trl_reward")


@pytest.fixture
def serve_reward(serve: Serve) -> Callable[[Callable[[str], bool]], str]:
    """Return the address of a reward service with a sandbox failing on some programs."""

    def start(fails: Callable[[str], bool]) -> str:
        sandbox = serve(create_faulty_sandbox(serve(create_sandbox(SandboxSettings())), fails))
        settings = RewardSettings(sandbox_url=sandbox, reward_retry_budget_s=0.1)
        return serve(create_reward(settings))

    return start


def fails_on_a_third(program: str) -> bool:
    return zlib.crc32(program.encode()) % 3 == 0


def train(folder: Path, reward_funcs: Any) -> tuple[Any, list[dict[str, float]]]:
    """Return a trainer after three steps of TRL on a tiny policy, and its log."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # TRL warns of its optional parts
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        model, tokenizer = create_policy(TINY, TEXTS, seed=0)
        with torch.no_grad():  # at random weights, all tokens are equally likely
            model.get_parameter("model.embed_tokens.weight").mul_(4.0)
        prompts = [f"Write solve(x). Return x plus {n}." for n in range(2)]
        arguments = GRPOConfig(
            output_dir=str(folder),
            max_steps=STEPS,
            per_device_train_batch_size=2 * GROUP,
            num_generations=GROUP,
            max_completion_length=8,
            learning_rate=1e-3,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            seed=1,
        )
        trainer = GRPOTrainer(
            model=model,
            args=arguments,
            reward_funcs=reward_funcs,
            train_dataset=Dataset.from_dict({"prompt": prompts, "label": [LABEL] * 2}),
            processing_class=tokenizer,
        )
        trainer.train()
    return trainer, [row for row in trainer.state.log_history if "loss" in row]


class Recorder:
    """Keeps the results of a reward function, and the texts in its calls."""

    def __init__(self, function: Any) -> None:
        self.__name__ = function.__name__
        self._function = function
        self.batches: list[list[float | None]] = []
        self.texts: list[str] = []

    async def __call__(self, **arguments: Any) -> list[float | None]:
        rewards: list[float | None] = await self._function(**arguments)
        self.batches.append(rewards)
        self.texts += arguments["completions"]
        return rewards


def logged_advantages(trainer: Any) -> list[float]:
    """Of the last step: TRL keeps no more."""
    return list(trainer._logs["advantages"])[-2 * GROUP :]


@pytest.mark.slow
def test_three_steps_of_trl_leave_out_what_the_sandbox_failed_on(
    tmp_path: Path, example: ModuleType, serve_reward: Callable[[Callable[[str], bool]], str]
) -> None:
    url = serve_reward(fails_on_a_third)
    recorder = Recorder(example.AssayReward(url=url, give_up_after_s=0.0))
    trainer, logs = train(tmp_path, recorder)
    assert len(recorder.batches) == STEPS
    prefix = "def f(x):\n    return x\n\n#"
    seen = [value for batch in recorder.batches for value in batch]
    assert [value is None for value in seen] == [
        fails_on_a_third(prefix + text) for text in recorder.texts
    ]
    assert {0.0, 1.0, None} <= set(seen), "right, wrong and failed all occur"
    for batch, row in zip(recorder.batches, logs, strict=True):
        scored = [value for value in batch if value is not None]
        assert row["reward"] == pytest.approx(sum(scored) / len(scored)), "not pulled towards 0"
        assert row["assay/failed"] == pytest.approx(batch.count(None) / len(batch))
        assert row["grad_norm"] == row["grad_norm"], "finite"
    last = recorder.batches[-1]
    groups = [last[:GROUP], last[GROUP:]]
    expected = [a or 0.0 for group in advantages([GroupRewards(g) for g in groups]) for a in group]
    assert logged_advantages(trainer) == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_a_second_reward_function_would_turn_failures_into_zeros(
    tmp_path: Path, example: ModuleType, serve_reward: Callable[[Callable[[str], bool]], str]
) -> None:
    """TRL's behaviour, and the reason for `AllOrNothing`."""
    url = serve_reward(fails_on_a_third)

    def half(completions: list[str], **_: object) -> list[float]:
        return [0.5] * len(completions)

    first = Recorder(example.AssayReward(url=url, give_up_after_s=0.0))
    trainer, _ = train(tmp_path / "apart", [first, half])
    failed = [at for at, value in enumerate(first.batches[-1]) if value is None]
    assert failed
    assert any(abs(logged_advantages(trainer)[at]) > 0.1 for at in failed), "a lie of TRL's sum"

    second = Recorder(example.AssayReward(url=url, give_up_after_s=0.0))
    trainer, _ = train(tmp_path / "whole", example.AllOrNothing({second: 1.0, half: 2.0}))
    failed = [at for at, value in enumerate(second.batches[-1]) if value is None]
    assert failed
    assert [logged_advantages(trainer)[at] for at in failed] == [0.0] * len(failed)


@pytest.mark.slow
def test_a_step_without_any_reward_moves_nothing(
    tmp_path: Path, example: ModuleType, serve_reward: Callable[[Callable[[str], bool]], str]
) -> None:
    url = serve_reward(lambda _: True)
    before, _ = create_policy(TINY, TEXTS, seed=0)
    trainer, logs = train(tmp_path, example.AssayReward(url=url, give_up_after_s=0.0))
    assert [row["assay/failed"] for row in logs] == [1.0] * STEPS
    assert [row["grad_norm"] for row in logs] == [0.0] * STEPS
    for name, weight in trainer.model.named_parameters():
        if "embed_tokens" not in name and "lm_head" not in name:
            assert torch.equal(weight, before.get_parameter(name)), name


async def test_one_request_scores_a_batch_in_the_order_that_it_came(
    example: ModuleType, serve_reward: Callable[[Callable[[str], bool]], str]
) -> None:
    reward = example.AssayReward("math", url=serve_reward(lambda _: False), label="answer")
    said = {"role": "assistant", "content": "so it is 4"}
    rewards = await reward(
        prompts=["2 + 2?", [{"role": "user", "content": "1 + 1?"}], "2 + 2?"],
        completions=["4", [said, {"role": "tool", "content": "2"}, said], "5"],
        answer=["#### 4", "2", "#### 4"],
    )
    assert rewards == [1.0, 0.0, 0.0]


@pytest.mark.slow
async def test_what_can_never_be_scored_ends_the_run(
    example: ModuleType, serve_reward: Callable[[Callable[[str], bool]], str]
) -> None:
    url = serve_reward(lambda _: False)
    rows = {"prompts": ["p"], "completions": ["c"]}
    with pytest.raises(InvalidInput, match=r"task.tests: task \w+ has no tests"):
        await example.AssayReward("code.sparse", url=url)(**rows, label=["4"])
    with pytest.raises(InvalidInput, match="label: the dataset has no column 'gold'"):
        await example.AssayReward("math", url=url, label="gold")(**rows)
    with pytest.raises(Unreachable):
        await example.AssayReward("math", url=NOWHERE, give_up_after_s=0.1)(**rows, label=["4"])
