"""verification.json and report.md of a verification, and its lines on the terminal."""

from pathlib import Path

from rich.console import Console

from assay_shared.runs.run_folder import write_atomically
from assay_shared.text.markdown import code
from assay_shared.types.wire import Wire
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.verification.channel import ChannelFinding, ChannelVerdict
from assay_trainer.verification.profile import KindProfile, SharedCount

_REPORT, _RECORD = "report.md", "verification.json"
_MAX_SHOWN = 200
_MAX_TOKENS_SHOWN = 40


class TokenFacts(Wire):
    """What the model's tokenizer says about its control tokens."""

    #: The token that the tokenizer puts before each text; null if it puts none.
    bos: str | None
    has_chat_template: bool
    control_tokens: dict[str, int]


class Verification(Wire):
    """verification.json."""

    created: str
    policy: EvaluatedPolicy
    tokens: TokenFacts
    #: It alone decides the exit code.
    channel: ChannelVerdict
    #: Informational.
    behaviour: tuple[KindProfile, ...]


def write_verification(found: Verification, output: Path) -> Path:
    """Write verification.json and report.md; return the report's path."""
    write_atomically(output / _RECORD, found.model_dump_json(indent=2) + "\n")
    lines = [
        f"# Verification of {code(found.policy.name)}",
        "",
        f"Digest {code(str(found.policy.digest))}, {found.created}.",
        "",
        *_of_channel(found),
        "",
        *_of_behaviour(found),
    ]
    write_atomically(output / _REPORT, "\n".join(lines) + "\n")
    return output / _REPORT


def print_verification(found: Verification, report: Path, console: Console) -> None:
    """Print a line for each kind of behaviour, the controls, and last the verdict."""
    lines = ["behaviour (informational):"]
    for kind in found.behaviour:
        other = kind.template
        told = "" if other is None else f", templated {_share(other.does_as_asked)}"
        lines.append(f"  {kind.kind}: raw {_share(kind.raw.does_as_asked)}{told}")
    for one in found.channel.controls:
        lines.append(f"planted {one.form.value}: {one.num_found} of {one.num_sent} found")
    if found.channel.num_too_long:
        lines.append(_told_too_long(found.channel))
    lines.append(f"channel {told_verdict(found.channel)}; report: {report}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def told_verdict(channel: ChannelVerdict) -> str:
    """Return the verdict with its numbers in words."""
    if channel.verdict == "UNPROVEN":
        reason = "a planted control was missed, or no prompt fits into the model's context"
        return f"UNPROVEN: {reason}"
    of = f"of {channel.num_prompts} raw prompts ({channel.num_tokens} tokens)"
    name = channel.verdict.replace("_", " ")
    return f"{name}: {channel.num_unclean} {of} have tokens that are not the prompt's own"


def _told_too_long(channel: ChannelVerdict) -> str:
    return (
        f"not checked: {channel.num_too_long} raw prompts that are longer than the context "
        "(`refused` in replies.jsonl has the reasons)"
    )


def _of_channel(found: Verification) -> list[str]:
    channel, tokens = found.channel, found.tokens
    names = [code(one) for one in tokens.control_tokens]
    more = len(names) - _MAX_TOKENS_SHOWN
    further = f" and {more} more" if more > 0 else ""
    bos = "puts none" if tokens.bos is None else f"puts {code(tokens.bos)}"
    lines = [
        "## Channel",
        "",
        f"**{told_verdict(channel)}**",
        "",
        f"- Control tokens: {', '.join(names[:_MAX_TOKENS_SHOWN]) or 'none'}{further}.",
        f"- Before a text, the tokenizer {bos}: {channel.num_with_bos} prompts begin with it.",
        f"- Chat template: {'yes' if tokens.has_chat_template else 'none'}.",
    ]
    if channel.num_too_long:
        lines.append(f"- {_told_too_long(channel)}.")
    lines += [
        "",
        "| planted control | sent | found | by tokens | by difference |",
        "|---|---|---|---|---|",
    ]
    for one in channel.controls:
        numbers = (one.num_sent, one.num_found, one.num_by_tokens, one.num_by_difference)
        lines.append(f"| {one.form.value} | {' | '.join(map(str, numbers))} |")
    if channel.findings:
        lines += ["", "### Prompts that are not clean", ""]
        lines += [_told_finding(one) for one in channel.findings]
    return lines


def _told_finding(one: ChannelFinding) -> str:
    shown = ", ".join(f"{code(token.token)} at {token.position}" for token in one.control_tokens)
    differs = "" if one.differs_at is None else f"; differs from the prompt at {one.differs_at}"
    return f"- {code(one.prompt[:_MAX_SHOWN])}: {shown or 'no control token'}{differs}"


def _of_behaviour(found: Verification) -> list[str]:
    lines = [
        "## Behaviour",
        "",
        "Informational: base models follow instructions too, so no share here tells that a model",
        "was instructed or contaminated. Shares have 95% intervals of Wilson.",
        "",
        "| kind | raw: as asked | templated: as asked | raw alone | templated alone |",
        "|---|---|---|---|---|",
    ]
    for kind in found.behaviour:
        other = "-" if kind.template is None else _share(kind.template.does_as_asked)
        differ = ["-" if one is None else str(one) for one in _apart(kind)]
        shares = f"{_share(kind.raw.does_as_asked)} | {other}"
        lines.append(f"| {kind.kind} | {shares} | {differ[0]} | {differ[1]} |")
    lines += [
        "",
        "| kind | raw: ended | templated: ended | raw: control token | templated: control token |",
        "|---|---|---|---|---|",
    ]
    for kind in found.behaviour:
        raw, templated = kind.raw, kind.template
        cells = [_share(raw.ended), "-" if templated is None else _share(templated.ended)]
        cells += [_share(raw.has_control_token)]
        cells += ["-" if templated is None else _share(templated.has_control_token)]
        lines.append(f"| {kind.kind} | {' | '.join(cells)} |")
    return lines


def _apart(kind: KindProfile) -> tuple[int | None, int | None]:
    return kind.num_raw_alone, kind.num_template_alone


def _share(one: SharedCount) -> str:
    if one.share is None or one.low is None or one.high is None:
        return "none asked"
    bounds = f"{100 * one.low:.0f} to {100 * one.high:.0f}%"
    return f"{one.num} of {one.num_asked} ({bounds})"
