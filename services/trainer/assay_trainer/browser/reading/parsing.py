"""A line of rollouts.jsonl or discarded.jsonl, as rows of the index.

A line is checked whole, so that each group of a list can be opened.
"""

import json
from dataclasses import dataclass, field

from pydantic import ValidationError

from assay_shared.errors import DatasetError
from assay_shared.settings.validation import message_of
from assay_shared.types import Reward, Rollout, Scored
from assay_shared.types.failure import Failure
from assay_trainer.rollouts.rollout_log import TrainedGroup

#: Characters of an answer that a search reads: its beginning and its end.
_HEAD_CHARACTERS, _TAIL_CHARACTERS = 3000, 1000
_MOST_NAME = 400
#: Whole numbers up to here are exact in each reader of JSON.
_LARGEST = 2**53
#: The outcome of a sample without a score.
FAILED = "failed"
#: The failure class of a sample whose failure is not stored.
UNKNOWN_FAILURE = "unknown"
#: The place of the only row of a group that failed before it had samples.
NO_SAMPLE = -1


@dataclass(frozen=True)
class IndexedSample:
    """A sample: `place` is its index in the group; `text` is what a search reads, in lower case."""

    place: int
    outcome: str
    failure_class: str
    reward: float | None
    num_tokens: int
    text: str
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexedGroup:
    """A line's group: the fields that lists and filters need."""

    step: int
    superseded: bool
    reason: str
    key: str
    task: str
    dataset: str
    tags: str
    version: int | None
    generate_s: float
    score_s: float
    samples: list[IndexedSample]


class _StoredLine(TrainedGroup):
    """A line of either file: a trained group has no `reason`."""

    reason: str = ""


def parse_line(content: bytes) -> IndexedGroup:
    """Return the group of a line.

    Raises:
        DatasetError: the line is not JSON, or not a group; names the field.
    """
    try:
        line = _StoredLine.model_validate_json(content)
    except ValidationError as error:
        raise refusal(error) from None
    return _group(line)


def refusal(error: ValidationError, where: str = "") -> DatasetError:
    """Return the error that names the first wrong field of a line; `where` names the line."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = ".".join(map(str, first["loc"]))[:200] or None
    return DatasetError(f"{where}{message_of(first):.200}", field=name)


def _group(line: _StoredLine) -> IndexedGroup:
    task, rollouts, rewards = line.group.task, line.group.rollouts, line.rewards
    if abs(line.step) > _LARGEST:
        raise DatasetError(f"must be at most {_LARGEST}", field="step")
    if rewards and len(rewards) != len(rollouts):
        told = f"{len(rewards)} rewards of {len(rollouts)} rollouts"
        raise DatasetError(f"{told}; each rollout needs one", field="rewards")
    samples = [
        _sample(place, rollout, rewards[place] if rewards else None, line.failure)
        for place, rollout in enumerate(rollouts)
    ]
    if not samples:
        samples = [_sample(NO_SAMPLE, None, None, line.failure)]
    versions = [policy.version for one in rollouts for policy in one.policies]
    return IndexedGroup(
        step=line.step,
        superseded=line.superseded,
        reason=_name(line.reason),
        key=_name(line.group.key),
        task=_name(task.id),
        dataset=_name(task.dataset),
        tags=json.dumps({_name(k): _name(v) for k, v in task.tags.items()}),
        version=min(versions) if versions else None,
        generate_s=line.generate_time_s,
        score_s=line.score_time_s,
        samples=samples,
    )


def _sample(
    place: int, rollout: Rollout | None, reward: Reward | None, group_failure: Failure | None
) -> IndexedSample:
    text, num_tokens = "", 0
    if rollout is not None:
        text = "\n".join([turn.text for turn in rollout.turns] or [rollout.text])
        num_tokens = len(rollout.token_ids)
    if isinstance(reward, Scored):
        parts = {_name(one.name): one.value for one in reward.components}
        outcome = reward.outcome.value
        return IndexedSample(place, outcome, "", reward.value, num_tokens, _searched(text), parts)
    failure = group_failure if reward is None else reward.failure
    if failure is None:
        return IndexedSample(place, FAILED, UNKNOWN_FAILURE, None, num_tokens, _searched(text))
    searched = _searched(f"{failure.message[:1000]}\n{text}")
    return IndexedSample(place, FAILED, failure.failure_class.value, None, num_tokens, searched)


def _searched(text: str) -> str:
    """Return the searched part of a text, in lower case."""
    if len(text) > _HEAD_CHARACTERS + _TAIL_CHARACTERS:
        text = f"{text[:_HEAD_CHARACTERS]}\n{text[-_TAIL_CHARACTERS:]}"
    return text.replace("\0", " ").lower()  # SQLite would read no further


def _name(text: str) -> str:
    return text[:_MOST_NAME]
