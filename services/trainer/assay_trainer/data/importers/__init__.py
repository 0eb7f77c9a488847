"""Published formats, a file for each, by the name that `assay data import` takes."""

from assay_shared.errors import DatasetError
from assay_trainer.data.importers.aime import AIME
from assay_trainer.data.importers.alpaca import ALPACA
from assay_trainer.data.importers.apps import APPS
from assay_trainer.data.importers.arc import ARC
from assay_trainer.data.importers.bbh import BBH
from assay_trainer.data.importers.code_contests import CODE_CONTESTS
from assay_trainer.data.importers.commonsenseqa import COMMONSENSEQA
from assay_trainer.data.importers.format import PublishedFormat
from assay_trainer.data.importers.gsm8k import GSM8K
from assay_trainer.data.importers.hotpotqa import HOTPOTQA
from assay_trainer.data.importers.humaneval import HUMANEVAL
from assay_trainer.data.importers.ifeval import IFEVAL
from assay_trainer.data.importers.math import MATH
from assay_trainer.data.importers.mbpp import MBPP
from assay_trainer.data.importers.messages import MESSAGES
from assay_trainer.data.importers.mmlu import MMLU
from assay_trainer.data.importers.own_tasks import OR_DEBUG, OWN_TASKS
from assay_trainer.data.importers.preference import PREFERENCE
from assay_trainer.data.importers.reasoning_gym import REASONING_GYM

_TABLE = (
    HUMANEVAL,
    MBPP,
    CODE_CONTESTS,
    APPS,
    GSM8K,
    MATH,
    AIME,
    MMLU,
    HOTPOTQA,
    COMMONSENSEQA,
    ARC,
    BBH,
    IFEVAL,
    REASONING_GYM,
    PREFERENCE,
    MESSAGES,
    ALPACA,
    OWN_TASKS,
    OR_DEBUG,
)
FORMATS: dict[str, PublishedFormat] = {one.name: one for one in _TABLE}


def find_format(name: str) -> PublishedFormat:
    """Return a format by its name.

    Raises:
        DatasetError: there is no such format.
    """
    if name not in FORMATS:
        raise DatasetError(
            f"there is no format {name}", field="FORMAT", hint=f"there are {', '.join(FORMATS)}"
        )
    return FORMATS[name]
