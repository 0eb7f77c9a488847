"""The stored evaluation of a command: begun, or resumed if it is of the same protocol and sets."""

import time
from collections.abc import Mapping, Sequence
from importlib import metadata

from assay_shared.errors import Conflict
from assay_trainer.evaluate.sets import OpenSet
from assay_trainer.evaluation.records.evaluation_record import (
    EvaluatedPolicy,
    EvaluatedSet,
    EvaluationRecord,
)
from assay_trainer.evaluation.records.folder import EvaluationFolder, readable
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.evaluation.records.sample_record import SampleRecord

_PACKAGES = ("assay-rl", "torch", "transformers", "vllm", "sglang")
#: A task's samples by their indices.
Stored = dict[int, SampleRecord]
#: How often the seconds played are stored.
_EVERY_S = 10.0


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that can move a number."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class EvaluationStore:
    """The folder of an evaluation, and its record as it grows."""

    def __init__(self, folder: EvaluationFolder, record: EvaluationRecord) -> None:
        self.folder = folder
        self.record = record
        self._written = time.monotonic()

    @classmethod
    def begin(
        cls,
        folder: EvaluationFolder,
        policy: EvaluatedPolicy,
        protocol: Protocol,
        sets: Sequence[OpenSet],
        engine: Mapping[str, str],
    ) -> "EvaluationStore":
        """Return the store of a new evaluation, or of the one in the folder, to resume it.

        Sets that the folder lacks are added. An unfinished one without a sample is begun again.

        Raises:
            Conflict: the folder has another policy, protocol or set; the difference is named.
        """
        record = folder.read_record() if folder.exists else None
        if record is not None and (folder.has_samples or record.finished is not None):
            _refuse_difference(record, policy, protocol, sets)
        else:
            record = EvaluationRecord(
                name=folder.path.resolve().name,
                policy=policy,
                protocol=protocol,
                protocol_digest=protocol.digest,
                sets=(),
                engine=dict(engine),
                versions=versions(),
                started=time.time(),
            )
            folder.write_record(record)  # the folder is known as an evaluation's from the start
        known = {one.name for one in record.sets}
        added = [one for one in sets if one.name not in known]
        facts = [*record.sets]
        for one in added:
            digest = folder.write_tasks(one.name, one.stored_tasks)
            facts.append(one.facts.model_copy(update={"stored_digest": digest}))
        store = cls(folder, record.model_copy(update={"sets": tuple(facts), "finished": None}))
        store._write()
        return store

    def facts(self, name: str) -> EvaluatedSet:
        return next(one for one in self.record.sets if one.name == name)

    def usable_samples(self, name: str) -> dict[str, Stored]:
        """Return the stored samples with a score by task and index; the others are dropped."""
        stored = self.folder.read_set(self.facts(name))
        found: dict[str, Stored] = {task.id: {} for task in stored.tasks}
        for sample in stored.samples:
            if sample.failure is None:
                found[sample.task_id][sample.index] = sample
        good = [one for some in found.values() for one in some.values()]
        if len(good) < len(stored.samples) or self.folder.has_blank_end(name):
            self.folder.replace_samples(name, good)
        return found

    def add_samples(
        self, name: str, samples: Sequence[SampleRecord], scorer: str
    ) -> list[SampleRecord]:
        """Append samples of a set and return them; an unreadable one becomes a failure.

        Raises:
            Conflict: a rubric computes something else than for the samples before.
        """
        self._note_scorer(name, scorer)
        stored = [readable(one) for one in samples]
        self.folder.append_samples(name, stored)
        return stored

    def add_time(self, name: str, played_s: float, *, now: bool = False) -> None:
        """Set the seconds in which a set was played; the file follows every ten seconds."""
        self._change(name, played_s=played_s)
        if now or time.monotonic() - self._written > _EVERY_S:
            self._write()

    def finish(self) -> None:
        self.record = self.record.model_copy(update={"finished": time.time()})
        self._write()

    def _note_scorer(self, name: str, scorer: str) -> None:
        known = self.facts(name).scorers
        if not scorer or scorer in known:
            return
        rubric = scorer.partition("@")[0]
        for one in known:
            if one.partition("@")[0] == rubric:
                raise Conflict(
                    f"the rubric {rubric} is {scorer} now, and scored samples of {name} as {one}",
                    hint="evaluate into another folder",
                )
        self._change(name, scorers=tuple(sorted((*known, scorer))))
        self._write()

    def _change(self, name: str, **values: object) -> None:
        sets = tuple(
            one.model_copy(update=values) if one.name == name else one for one in self.record.sets
        )
        self.record = self.record.model_copy(update={"sets": sets})

    def _write(self) -> None:
        self.folder.write_record(self.record)
        self._written = time.monotonic()


def _refuse_difference(
    record: EvaluationRecord,
    policy: EvaluatedPolicy,
    protocol: Protocol,
    sets: Sequence[OpenSet],
) -> None:
    hint = "evaluate into another folder"
    if changes := record.protocol.differences(protocol):
        raise Conflict(f"the folder has another protocol: {'; '.join(changes)}", hint=hint)
    known = {one.name: one for one in record.sets}
    for one in sets:
        before = known.get(one.name)
        if before is not None and before.digest != one.facts.digest:
            raise Conflict(
                f"the folder has another set {one.name}: {before.num_tasks} tasks of "
                f"{before.source} with digest {before.digest[:12]}, not {one.facts.num_tasks} of "
                f"{one.facts.source} with {one.facts.digest[:12]}",
                hint=hint,
            )
    for name in ("kind", "digest") if policy.digest else ("kind", "name"):
        mine, theirs = getattr(record.policy, name), getattr(policy, name)
        if mine != theirs:
            raise Conflict(f"the folder has another policy: {name} {mine}, not {theirs}", hint=hint)
