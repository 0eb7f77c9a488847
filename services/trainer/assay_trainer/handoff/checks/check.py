"""A check of a hand-off: its verdict, its evidence, and what a failure rules out."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, JsonValue


class CheckVerdict(StrEnum):
    """What a check found; SKIPPED says that it could not be made, and why."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIPPED = "SKIPPED"


class FolderUse(StrEnum):
    """What a folder is handed off for."""

    TRANSFORMERS = "loading with transformers"
    TRAINING = "SFT, DPO and GRPO (`policy.folder`)"
    SERVING = "serving with Assay's own engine"
    VLLM = "serving with vLLM"
    CHAT = "conversations"


EVERYTHING = tuple(FolderUse)
#: The names of the checks that try an engine.
LOADS, IN_ASSAY, IN_VLLM = "loads in transformers", "serves in Assay", "serves in vLLM"
#: The check without which a use is not known.
TRIED_BY = {
    FolderUse.TRANSFORMERS: LOADS,
    FolderUse.SERVING: IN_ASSAY,
    FolderUse.VLLM: IN_VLLM,
}


class HandoffCheck(BaseModel):
    """A check with its verdict. `rules_out` is what a folder that fails it cannot be used for."""

    model_config = ConfigDict(frozen=True)

    name: str
    verdict: CheckVerdict
    evidence: str
    rules_out: tuple[FolderUse, ...] = ()
    details: dict[str, JsonValue] = {}


def judged(
    name: str,
    holds: bool,
    evidence: str,
    rules_out: tuple[FolderUse, ...] = EVERYTHING,
    **details: JsonValue,
) -> HandoffCheck:
    """Return a check that passes if `holds`."""
    verdict = CheckVerdict.PASS if holds else CheckVerdict.FAIL
    return HandoffCheck(
        name=name,
        verdict=verdict,
        evidence=evidence,
        rules_out=() if holds else rules_out,
        details=details,
    )


def skipped(name: str, reason: str) -> HandoffCheck:
    """Return a check that could not be made."""
    return HandoffCheck(name=name, verdict=CheckVerdict.SKIPPED, evidence=reason)


def uses(checks: Sequence[HandoffCheck]) -> dict[FolderUse, str]:
    """Return, by use, yes, or no with the failed checks, or that it was not tried."""
    failed = {use: [one.name for one in checks if use in one.rules_out] for use in FolderUse}
    tried = {one.name for one in checks if one.verdict is not CheckVerdict.SKIPPED}
    found = {}
    for use, names in failed.items():
        needed = TRIED_BY.get(use)
        if names:
            found[use] = f"no: {', '.join(names)}"
        else:
            found[use] = "yes" if needed is None or needed in tried else f"not tried ({needed})"
    return found
