"""An evaluation from its opened sets to its report."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from assay_shared.clients import RewardClient
from assay_shared.interfaces import RewardService
from assay_shared.runs.run_folder import write_atomically
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.evaluate.answers.sources import MAX_CONNECTIONS, RETRY, Source
from assay_trainer.evaluate.answers.submit import SubmitClient
from assay_trainer.evaluate.playing.player import UnitPlayer
from assay_trainer.evaluate.playing.set_play import SetPlay, SetProgress
from assay_trainer.evaluate.reporting.qa_log import write_qa_log
from assay_trainer.evaluate.reporting.report import write_report
from assay_trainer.evaluate.sets import OpenSet
from assay_trainer.evaluate.store import EvaluationStore
from assay_trainer.evaluation.metrics.measure import measure
from assay_trainer.evaluation.metrics.set_metrics import SetMetrics
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind

#: Gets a set's name and its numbers.
OnProgress = Callable[[str, SetProgress], None]


class _Reward(RewardClient):
    max_connections = MAX_CONNECTIONS


@dataclass(frozen=True)
class EvaluationOrder:
    """What is evaluated, how, and where it is stored."""

    policy: EvaluatedPolicy
    protocol: Protocol
    sets: Sequence[OpenSet]
    output: Path
    concurrency: int = 64
    max_failed: int = 32
    #: First requests that all fail alike end it too, whatever `max_failed` is.
    ends_alike: bool = True
    #: QA samples of each outcome, by set; the empty name stands for all others.
    qa_per_outcome: Mapping[str, int] | None = None
    #: The server whose /submit scores, in place of the reward service.
    submit: str | None = None

    def rewarder(self, settings: ServiceSettings) -> _Reward | SubmitClient:
        """Return the client that scores."""
        if self.submit is not None:
            return SubmitClient(self.submit, retry=RETRY)
        return _Reward.from_settings(settings, retry=RETRY)


async def evaluate(
    order: EvaluationOrder,
    opening: AbstractAsyncContextManager[Source],
    settings: ServiceSettings,
    on_progress: OnProgress = lambda name, progress: None,
) -> dict[str, SetMetrics]:
    """Play what is missing of all sets, write all files, and return the numbers of each set.

    Raises:
        Conflict: the folder has an evaluation by another protocol, of another policy or set.
        AssayError: something is down.
    """
    async with opening as source, order.rewarder(settings) as rewarder:
        folder = EvaluationFolder(order.output)
        store = EvaluationStore.begin(
            folder, order.policy, order.protocol, order.sets, source.engine
        )
        for opened in order.sets:
            await _play(order, opened, store, source, rewarder, on_progress)
            _write_metrics(store, opened.name)
    store.finish()
    return write_results(folder, order.qa_per_outcome)


async def _play(
    order: EvaluationOrder,
    opened: OpenSet,
    store: EvaluationStore,
    source: Source,
    rewarder: RewardService,
    on_progress: OnProgress,
) -> None:
    by_likelihood = order.protocol.kind is ProtocolKind.LIKELIHOOD
    player = UnitPlayer(store.record.name, opened.name, order.protocol, source.answering, rewarder)
    await SetPlay(
        opened=opened,
        store=store,
        protocol=order.protocol,
        player=None if by_likelihood else player,
        reader=source.reader if by_likelihood else None,
        concurrency=order.concurrency,
        max_failed=order.max_failed,
        ends_alike=order.ends_alike,
        on_progress=lambda progress: on_progress(opened.name, progress),
    ).play()


def _write_metrics(store: EvaluationStore, name: str) -> SetMetrics:
    stored = store.folder.read_set(store.facts(name))
    metrics = measure(stored, store.record.protocol)
    write_atomically(store.folder.metrics(name), metrics.model_dump_json(indent=1) + "\n")
    return metrics


def write_results(
    folder: EvaluationFolder, qa_per_outcome: Mapping[str, int] | None = None
) -> dict[str, SetMetrics]:
    """Write metrics, QA logs and the report of a stored evaluation; return the metrics."""
    from assay_trainer.evaluation.records.folder import read_evaluation

    stored = read_evaluation(folder.path)
    wanted = qa_per_outcome or {}
    found = {}
    for name, one in stored.sets.items():
        found[name] = measure(one, stored.record.protocol)
        write_atomically(folder.metrics(name), found[name].model_dump_json(indent=1) + "\n")
        number = wanted.get(name, wanted.get("", 10))
        write_qa_log(folder, one, number, stored.record.protocol.seed)
    write_report(stored, found)
    return found
