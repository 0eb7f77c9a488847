"""Checks of a folder under each engine, against the answers of plain transformers."""

from pathlib import Path

from assay_trainer.handoff.checks.check import (
    EVERYTHING,
    IN_ASSAY,
    IN_VLLM,
    LOADS,
    FolderUse,
    HandoffCheck,
    judged,
    skipped,
)
from assay_trainer.handoff.checks.tokens import GreedyAnswer, compare
from assay_trainer.handoff.engines.answers import FolderAccount
from assay_trainer.handoff.engines.fresh import Asking
from assay_trainer.handoff.engines.served import (
    EngineMissing,
    FolderNotServed,
    ServedAnswers,
    ask_served,
    find_vllm,
    transformers_environment,
    vllm_environment,
)

_SAME = "same as the source"
#: The difference in nats of two tokens that rounding of all weights may turn around.
_ROUNDED_NATS = {"float32": 1e-3}
_ROUNDED_TO_16_BITS_NATS = 0.2
#: The difference of two tokens that kernels of 16 bits may turn around: logits between 16 and 32
#: have steps of 0.125 in bfloat16, and each kernel rounds in another order.
_KERNELS_OF_16_BITS_NATS = 0.5
#: Log-probabilities of the same tokens move by at most this multiple of it.
_MOVED = 2.5


def loading(found: FolderAccount) -> HandoffCheck:
    """Tell that transformers loaded the folder alone."""
    versions = ", ".join(f"{name} {one}" for name, one in found.versions.items())
    evidence = (
        f"{found.model_class} in {found.dtype}, in a separate process, offline, in "
        f"{found.seconds:.0f} s with its answers ({versions})"
    )
    return judged(LOADS, True, evidence)


def same_as_source(
    source: FolderAccount, found: FolderAccount, *, is_rounded: bool, compared_with: str
) -> HandoffCheck:
    """Check that greedy answers are the source's; rounded weights may turn ties around."""
    tie = 0.0
    if is_rounded:
        tie = _ROUNDED_NATS.get(found.dtype, _ROUNDED_TO_16_BITS_NATS)
    if source.dtype != found.dtype:  # the two compute in different types
        tie = _KERNELS_OF_16_BITS_NATS
    others = [GreedyAnswer(one.token_ids, one.logprobs) for one in found.answers]
    if [one.prompt_ids for one in source.answers] != [one.prompt_ids for one in found.answers]:
        return judged(_SAME, False, "prompts have other tokens than the source's")
    result = compare(source.answers, others, tie)
    is_near = not is_rounded or result.largest_logprob_difference <= _MOVED * tie
    allowed = f"; ties within {tie:g} nats, since weights were rounded" if is_rounded else ""
    return judged(
        _SAME,
        not result.differences and is_near,
        f"against {compared_with}: {result.evidence}{allowed}",
        num_prompts=result.num_prompts,
        num_tokens=result.num_tokens,
        num_ties=result.num_ties,
        differences=list(result.differences),
        largest_logprob_difference=result.largest_logprob_difference,
    )


def not_compared(reason: str) -> HandoffCheck:
    """Return the failure of a comparison with a source that transformers does not load."""
    return judged(_SAME, False, f"nothing was compared: the source does not load: {reason}")


def own_engine(
    folder: Path, found: FolderAccount, asking: Asking, tie_nats: float | None
) -> HandoffCheck:
    """Check that Assay's own engine serves the folder, with the same greedy tokens."""
    name = IN_ASSAY
    environment = transformers_environment(asking.device)
    try:
        served = ask_served(folder, environment, found.answers, asking.max_tokens, asking.limit_s)
    except EngineMissing as error:
        return skipped(name, str(error))
    except FolderNotServed as error:
        return judged(name, False, str(error), (FolderUse.SERVING, FolderUse.TRAINING))
    rules_out = (FolderUse.SERVING, FolderUse.TRAINING)
    return _agreement(name, found, served, tie_nats, rules_out)


def vllm(
    folder: Path, found: FolderAccount, asking: Asking, tie_nats: float | None, named: Path | None
) -> HandoffCheck:
    """Check that vLLM serves the folder, holds its weights, and has the same greedy tokens."""
    name = IN_VLLM
    try:
        environment = vllm_environment(find_vllm(named))
        served = ask_served(folder, environment, found.answers, asking.max_tokens, asking.limit_s)
    except EngineMissing as error:
        return skipped(name, str(error))
    except FolderNotServed as error:
        return judged(name, False, str(error), (FolderUse.VLLM,))
    return _agreement(name, found, served, tie_nats, (FolderUse.VLLM,))


def not_loaded(reason: str) -> HandoffCheck:
    """Return the failure of a folder that transformers does not load."""
    return judged(LOADS, False, reason, EVERYTHING)


def _tie_of(found: FolderAccount) -> float:
    """Return the difference of two tokens that engines may turn around: none in float32."""
    return 0.0 if found.dtype == "float32" else _KERNELS_OF_16_BITS_NATS


def _agreement(
    name: str,
    found: FolderAccount,
    served: ServedAnswers,
    tie_nats: float | None,
    rules_out: tuple[FolderUse, ...],
) -> HandoffCheck:
    others = [
        GreedyAnswer(one.completions[0].token_ids, one.completions[0].logprobs)
        for one in served.answers
    ]
    tie = _tie_of(found) if tie_nats is None else tie_nats
    result = compare(found.answers, others, tie)
    status = served.status
    allowed = f"; ties within {tie:g} nats" if result.num_ties else ""
    tensors = ""
    if status.num_compared:
        tensors = f"; {status.num_compared} of {status.num_tensors} tensors compared in its memory"
    return judged(
        name,
        not result.differences and (not tie or result.largest_logprob_difference <= tie),
        f"against transformers: {result.evidence}{allowed}{tensors}",
        rules_out,
        num_prompts=result.num_prompts,
        num_tokens=result.num_tokens,
        num_ties=result.num_ties,
        differences=list(result.differences),
        largest_logprob_difference=result.largest_logprob_difference,
        num_tensors_compared=status.num_compared,
    )
