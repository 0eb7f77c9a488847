"""The policy of a run: its first weights, the model each stage leaves, and their publisher."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.clients import InferenceClient, RetryBudget, Timeouts
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import (
    ConfigError,
    DatasetError,
    WeightsRefused,
)
from assay_shared.types import Task
from assay_trainer.curriculum.state import BatcherState
from assay_trainer.data.tokenization import answered_token_ids, refused_by_template
from assay_trainer.evaluate.policy.checkpoints import load_trained, servable_folder
from assay_trainer.learner import checkpoint
from assay_trainer.learner.network.adapters import add_adapter, has_own_types, recipe_of
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.pipeline.before_start import ask_inference
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.hub_names import download_policy
from assay_trainer.pipeline.run_sets import RunSets
from assay_trainer.pipeline.tiers import Tiers
from assay_trainer.weights.adapter import bare
from assay_trainer.weights.direct import DirectTransfer
from assay_trainer.weights.folder import publish_policy
from assay_trainer.weights.publisher import WeightPublisher

Policy = tuple[PreTrainedModel, PreTrainedTokenizerBase]
_RETRY = RetryBudget(attempts=40, total_s=60.0)
#: A first announcement starts an engine; a later one waits for the sequences in flight.
_ANNOUNCE = Timeouts(read_s=1500.0, total_s=1500.0)
_PROBE_TOKENS = 128


def stage_model(run: RunContext, stage: str, make: Callable[[], Policy]) -> Policy:
    """Return the model of a stage: the model in the run's folder, else the result of `make`.

    Raises:
        WeightsRefused: the folder is not as the stage wrote it.
    """
    folder = run.folder.path / "models" / stage
    if not checkpoint.is_sealed(folder):
        publish_policy(*make(), folder)
        checkpoint.seal(folder)
    checkpoint.check_seal(folder)
    return _loaded(run, folder)


def _loaded(run: RunContext, folder: Path) -> Policy:
    """Return the model of a folder: float32, but for the base of an adapter on a GPU."""
    own = has_own_types(run.config.policy.lora, run.ranks.device)
    return load_policy(folder, keep_types=own)


def adapted(run: RunContext, policy: Policy, *, dropout: bool = False) -> Policy:
    """Return the policy with a new adapter, in peft's wrapper, if the run file asks for one."""
    lora = run.config.policy.lora
    if lora is None:
        return policy
    if not dropout:
        lora = lora.model_copy(update={"dropout": 0.0})
    wrapped: Any = add_adapter(policy[0], lora, run.config.seed, run.ranks.device)
    return wrapped, policy[1]


def best_or_last(run: RunContext, tiers: Tiers, stage: str, last: Policy) -> Policy:
    """Return the best measured checkpoint of a stage; else the model of its last update.

    Of an adapter, that is the model of the last update with the checkpoint's adapter.
    """
    place = tiers.best_of(stage)
    if place is None:
        return last
    if recipe_of(bare(last[0])) is not None:
        checkpoint.check(place.folder)
        load_trained(bare(last[0]), place.folder)
        return last
    with run.scratch() as scratch:
        return load_policy(servable_folder(place, scratch))


def newest_checkpoint(run: RunContext, stage: str) -> tuple[Path, BatcherState] | None:
    """Return the checkpoint to resume a stage from; None if the stage begins."""

    def report(folder: Path, reason: str) -> None:
        where = str(folder.relative_to(run.folder.path))
        run.record("checkpoint_refused", stage=stage, folder=where, reason=reason)

    return checkpoint.take_newest(run.folder.checkpoints / stage, report)


def initial_policy(run: RunContext, sets: RunSets) -> Policy:
    """Return the policy of the run file: of its folder or a hub, or made from scratch."""
    config = run.config.policy
    if config.hub is not None:
        return _loaded(run, download_policy(config.hub, config.revision))
    if config.new is None:
        assert config.folder is not None
        return _loaded(run, config.folder)
    texts = (
        "\n".join([*(said.content for said in task.history), task.prompt, task.gold or ""])
        for task in sets.train.dataset.tasks + sets.other_demonstrations
    )
    return create_policy(config.new, texts, run.config.seed)


def check_servable(run: RunContext) -> None:
    """Check that inference would serve the run's first policy, before anything is trained.

    An upload is not checked, nor is anything while inference does not answer: the first evaluation
    tells then.

    Raises:
        InvalidInput: inference reads no folder of this run.
        ConfigError: the engine does not serve this model or its tokenizer.
    """
    try:
        ask_inference(run.folder.path / "models" / "initial", run.settings)
    except WeightsRefused as error:
        policy = run.config.policy.hub or run.config.policy.folder or "the new model"
        raise ConfigError(
            f"inference does not serve a copy of {policy}: {error.message}",
            field="policy",
            hint=error.hint,
        ) from None


def _probe_task(sets: RunSets, tokenizer: PreTrainedTokenizerBase) -> Task:
    """Return the first training task that the policy's chat template can show."""
    reason = ""
    for task in sets.train.dataset.tasks:
        refused = refused_by_template([task], tokenizer)
        if not refused:
            return task
        reason = refused[0][1]
    raise DatasetError(f"no training task can be shown to the policy: {reason}", field="data.train")


def make_publisher(
    run: RunContext, sets: RunSets, tokenizer: PreTrainedTokenizerBase
) -> WeightPublisher:
    """Return the publisher of the run's weights; its probe is the first training task.

    Raises:
        DatasetError: the policy's chat template refuses all training tasks.
    """
    task = _probe_task(sets, tokenizer)
    ids, _ = answered_token_ids(task, task.gold or "", tokenizer)
    transfer: Literal["folder", "upload"] = "folder"
    if run.settings.weight_transfer == "upload":
        transfer = "upload"

    def connect(retry: RetryBudget) -> InferenceClient:
        return InferenceClient.from_settings(run.settings, timeouts=_ANNOUNCE, retry=retry)

    direct = None
    if run.settings.weight_transfer == "direct":
        direct = DirectTransfer(run.settings, lambda: connect(NO_RETRY))
    return WeightPublisher(
        run.folder.policies,
        lambda: connect(_RETRY),
        ids[:_PROBE_TOKENS],
        transfer,
        direct,
        lambda version, reason: run.record("by_folder", version=version, message=reason),
        lambda: checkpoint.sealed_files(run.folder.path / "models"),
    )
