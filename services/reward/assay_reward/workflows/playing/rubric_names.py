"""Names of rubrics that the commands take: of workflows, and of their answers."""

from pathlib import Path
from typing import Final

from assay_reward.settings import RewardSettings
from assay_reward.workflows.playing.played import PREFIX
from assay_shared.errors import DatasetError
from assay_shared.settings.environment import read_settings
from assay_shared.settings.run_file import read_yaml

_BUILT_IN: Final = Path(__file__).parents[2] / "rubrics"


class RubricNames:
    """The rubrics that come with the service, and those of `ASSAY_REWARD_RUBRICS`."""

    def __init__(self) -> None:
        extra = read_settings(RewardSettings).reward_rubrics
        files = sorted(_BUILT_IN.glob("*.yaml"))
        if extra is not None:
            files += sorted(extra.glob("*.yaml")) if extra.is_dir() else [extra]
        of_workflows = {
            str(read.get("name")): f"verifier: {PREFIX}" in str(read).replace("'", "")
            for read in map(read_yaml, files)
        }
        self._all = set(of_workflows)
        self._of_workflows = {name for name, is_one in of_workflows.items() if is_one}

    def check_workflows(self, name: str, *, is_known: bool = True) -> None:
        """Refuse a rubric that does not score workflows.

        Raises:
            DatasetError: it scores other answers, or (`is_known`) no rubric has this name.
        """
        if name not in self._of_workflows and (is_known or name in self._all):
            known = ", ".join(sorted(self._of_workflows))
            raise DatasetError(
                f"{name!r} is not a rubric of workflows",
                field="rubric",
                hint=f"known: {known}; your own ones are in ASSAY_REWARD_RUBRICS",
            )

    def check_answers(self, name: str, task_id: str) -> None:
        """Refuse a task whose rubric scores workflows, since a workflow's answer is none."""
        if name in self._of_workflows:
            raise DatasetError(
                f"task {task_id} has the rubric {name}, which scores workflows, not their answers",
                field="rubric",
            )
