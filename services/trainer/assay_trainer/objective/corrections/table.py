"""The corrections by name. A new one is a file and a row here."""

from assay_trainer.objective.corrections import (
    decoupled,
    icepop,
    mis,
    off_policy_mask,
    sequence_mask,
    tis,
)

CORRECTIONS = {
    one.ROW.name: one.ROW for one in (tis, mis, icepop, decoupled, sequence_mask, off_policy_mask)
}
