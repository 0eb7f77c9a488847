"""The losses by name. A new one is a file and a row here."""

from assay_trainer.objective.losses import cispo, dapo, dgro, dr_grpo, grpo, gspo, reinforce

LOSSES = {one.ROW.name: one.ROW for one in (grpo, dapo, dr_grpo, cispo, gspo, dgro, reinforce)}


def average_of(loss: str, average: str | None) -> str:
    """Return the name of a loss's average: the given one, or its own."""
    return average or LOSSES[loss].average
