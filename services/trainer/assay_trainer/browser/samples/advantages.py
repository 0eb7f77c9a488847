"""The advantages that the trainer computed for stored groups."""

from assay_shared.errors import AssayError, InvalidInput
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.config import RunConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.advantage import advantages, group_rewards
from assay_trainer.learner.normalisation.overlong import Overlong
from assay_trainer.rollouts.rollout_log import DiscardedGroup, TrainedGroup

#: Normalisations that need no group but the sample's own.
_OF_THE_GROUP = ("group", "none", "rloo")
_MOST_GROUPS, _MOST_GROUP_BYTES = 128, 32 * 2**20

#: An advantage for each sample of a group, or the reason why there is none.
Known = tuple[list[float | None], str]


class StoredAdvantages:
    """The advantages of a run's groups. The last step that was read is kept: groups follow it."""

    def __init__(self, index: RunIndex, config: RunConfig | None) -> None:
        self._index = index
        self._grpo = None if config is None else config.grpo
        self._step = 0
        self._of_step: dict[int, Known] = {}

    def of(self, group: TrainedGroup, group_id: int) -> Known:
        """Return the advantages of a group's samples, or the reason why they are not known.

        Raises:
            NotFound: the file of a group of the step is gone.
            DatasetError: the line of a group of the step is damaged.
        """
        if isinstance(group, DiscardedGroup):
            return [], "the group was not trained on"
        if self._grpo is None:
            return [], "config.json is of another version, or has no grpo"
        if self._grpo.normalise in _OF_THE_GROUP:
            return _advantages(self._grpo, [group])[0]
        if group.superseded:
            return [], "a resume replaced the step, and the advantage depends on its other groups"
        if self._step != group.step or group_id not in self._of_step:
            self._step, self._of_step = group.step, self._read(self._grpo, group.step)
        too_many = "it depends on all groups of the step, and they are too many to read"
        return self._of_step.get(group_id, ([], too_many))

    def _read(self, grpo: GRPOConfig, step: int) -> dict[int, Known]:
        numbers = self._index.ids_of_step(step, _MOST_GROUPS, _MOST_GROUP_BYTES)
        batch = [self._index.group(number) for number in numbers]
        return dict(zip(numbers, _advantages(grpo, batch), strict=True))


def _advantages(grpo: GRPOConfig, batch: list[TrainedGroup]) -> list[Known]:
    """Return the advantages of groups that were normalised together."""
    rule = Overlong.of(grpo)
    try:
        found = advantages([group_rewards(one, grpo.normalise, rule) for one in batch])
    except InvalidInput as error:
        return [([], error.message)] * len(batch)
    except (AssayError, ValueError, KeyError) as error:  # a group that no trainer wrote
        return [([], f"the rewards do not fit the samples: {error}"[:200])] * len(batch)
    return [(one, "") for one in found]
