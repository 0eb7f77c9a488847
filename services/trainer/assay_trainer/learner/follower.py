"""A process that trains under the lead of rank 0, from its first call to its last."""

import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.adapters import AdapterRecipe, add_adapter, has_own_types
from assay_trainer.learner.network.model import load_policy
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.updater import Updater
from assay_trainer.weights.adapter import bare


def main() -> NoReturn:
    """Follow rank 0, then end this process with code 0.

    Raises:
        Unreachable: rank 0 has ended without a word.
    """
    follow()
    sys.stdout.flush()
    sys.stderr.flush()
    # gloo's threads may still free their tensors. One that asks for an interpreter which is ending
    # aborts the process.
    os._exit(0)


def follow() -> None:
    """Do what rank 0 asks until it has finished.

    Signals of a terminal or a launcher are for rank 0, which ends the run between steps.

    Raises:
        Unreachable: rank 0 has ended without a word.
    """
    ranks = Ranks()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    updater: Any = None
    while (message := ranks.receive()) is not None:
        method, arguments = message
        with ranks.together():
            if method == "begin":
                updater = _begin(ranks, *arguments)
            else:
                getattr(updater, method)(*arguments)
    if updater is not None:
        updater.finish()
    ranks.leave()


def _begin(ranks: Ranks, folder: Path, config: GRPOConfig, recipe: AdapterRecipe | None) -> Updater:
    own = has_own_types(None if recipe is None else recipe[0], ranks.device)
    model = load_policy(folder, keep_types=own)[0]
    if recipe is not None:
        model = bare(add_adapter(model, *recipe, ranks.device))
    return Updater(model, config, ranks)


if __name__ == "__main__":
    main()
