"""Rules about the losses of SFT."""

from collections.abc import Iterator, Mapping

from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.finding import RunFinding

#: The held-out loss has risen by more than this share over its least value.
_RISEN = 0.02
#: The loss of training has fallen by less than this share.
_FALLEN = 0.05
_FEWEST_STEPS = 10


def sft(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield findings about the losses of SFT's steps."""
    held_out = {one.step: one.validation_loss for one in facts.sft}
    known = {step: loss for step, loss in held_out.items() if loss is not None}
    if len(facts.sft) >= _FEWEST_STEPS:
        yield from of_losses(facts.sft[0].loss, facts.sft[-1].loss, known)


def of_losses(first: float, last: float, held_out: Mapping[int, float]) -> Iterator[RunFinding]:
    """Yield findings by the first and the last loss, and the held-out losses by step, in nats."""
    if held_out:
        best = min(held_out, key=lambda step: held_out[step])
        end = held_out[max(held_out)]
        if end > held_out[best] * (1 + _RISEN):
            yield RunFinding(
                "sft_overfits",
                f"the held-out loss of SFT was least at step {best} ({held_out[best]:.3f}) and "
                f"rose to {end:.3f} (limit {_RISEN:.0%})",
                "it overfits; fewer sft.epochs or sft.steps, or evaluation.best",
                end / held_out[best] - 1,
                _RISEN,
            )
    if last > first * (1 - _FALLEN):
        yield RunFinding(
            "sft_learns_nothing",
            f"the loss of SFT went from {first:.3f} to {last:.3f} (limit {_FALLEN:.0%} lower)",
            "it does not learn; check sft.learning_rate, and the rows as the model sees them: "
            "`assay data show`",
            1 - last / first if first else 0.0,
            _FALLEN,
        )


RULES = (sft,)
