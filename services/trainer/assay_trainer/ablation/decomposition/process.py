"""A process for gradients: it leaves the accelerator's memory to the next run when it ends.

python -m assay_trainer.ablation.decomposition.process FOLDER controls ARM SEED
python -m assay_trainer.ablation.decomposition.process FOLDER arm ARM PREVIOUS SEED
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from assay_shared.runtime.processes import tie_to_parent

if TYPE_CHECKING:
    from assay_trainer.learner.ranks import Ranks


def main(arguments: list[str]) -> None:
    """Write the file that the arguments ask for."""
    tie_to_parent()  # before imports that take seconds
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts
    import torch

    from assay_shared.telemetry.logs import quiet_transformers, set_up_logging
    from assay_trainer.learner.ranks import joined

    set_up_logging("ablate", "ERROR")
    quiet_transformers()
    path, kind, names, seed = Path(arguments[0]), arguments[1], arguments[2:-1], int(arguments[-1])
    with joined() as ranks:
        # Kernels that add in any order let what does nothing differ by 1e-4 now and then. A model
        # with an operation that has no other kernel has that noise, which is measured.
        for is_repeatable in (True, False):
            torch.use_deterministic_algorithms(is_repeatable)
            try:
                _write(path, kind, names, seed, ranks)
                return
            except RuntimeError as error:
                if not is_repeatable or "deterministic" not in str(error):
                    raise


def _write(path: Path, kind: str, names: list[str], seed: int, ranks: "Ranks") -> None:
    """Write what is found of the arms; `seed` is that of the first run."""
    from assay_shared.runs.run_folder import RunFolder, write_atomically
    from assay_trainer.ablation.ablation_folder import AblationFolder, is_finished
    from assay_trainer.ablation.arms import arm_config
    from assay_trainer.ablation.decomposition.controls import run_controls
    from assay_trainer.ablation.decomposition.decompose import ArmPair, decompose

    folder = AblationFolder.open(path)
    plan = folder.plan()
    configs = [arm_config(plan, plan.arm(name), seed, None) for name in names]
    own = [folder.run(names[-1], one) for one in (seed, *plan.config.seeds)]
    runs = [RunFolder.open(one) for one in dict.fromkeys(own) if is_finished(one)]
    if kind == "controls":
        controls = run_controls(configs[0], runs, plan.config.decomposition.batches, ranks)
        write_atomically(folder.controls, controls.model_dump_json(indent=1) + "\n")
        return
    pair = ArmPair(names[0], names[1], configs[0], configs[1])
    found = decompose(pair, runs, plan.config.decomposition.batches, ranks)
    write_atomically(folder.decomposition(names[0]), found.model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
