"""The losses by name. A new one is a file and a row here."""

from assay_trainer.objective.losses import cispo, dapo, dgro, dr_grpo, grpo, gspo, reinforce

LOSSES = {one.ROW.name: one.ROW for one in (grpo, dapo, dr_grpo, cispo, gspo, dgro, reinforce)}
