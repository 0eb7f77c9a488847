"""Import, make, show and register sets; demonstrations and preferences of stored samples."""

from assay_trainer.curation.command import app
from assay_trainer.curation.constraining.command import constrain
from assay_trainer.demonstrations.command import instructions, rejection
from assay_trainer.pairs.command import pairs, pairs_check

app.command()(constrain)
app.command()(instructions)
app.command()(rejection)
app.command()(pairs)
app.command("pairs-check")(pairs_check)

__all__ = ["app"]
