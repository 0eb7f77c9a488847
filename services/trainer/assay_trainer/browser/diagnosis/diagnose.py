"""All rules over the facts of a run."""

from assay_trainer.browser.diagnosis import (
    failure_rules,
    learning_rules,
    sft_rules,
    time_rules,
    weight_rules,
)
from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.finding import Rule, RunFinding

#: In the order of the findings: what loses samples first, what only costs time last.
RULES: tuple[Rule, ...] = (
    *failure_rules.RULES,
    *weight_rules.RULES,
    *learning_rules.RULES,
    *sft_rules.RULES,
    *time_rules.RULES,
)


def diagnose(facts: DiagnosedFacts) -> list[RunFinding]:
    """Return what the rules find in a run; empty if its numbers are within all limits."""
    return [found for rule in RULES for found in rule(facts)]
