"""Checks of the chat template, the end tokens and the special tokens."""

from assay_trainer.handoff.checks.check import (
    FolderUse,
    HandoffCheck,
    judged,
    skipped,
)
from assay_trainer.handoff.engines.answers import FolderAccount, shown_tokens

_GENERATION = "generation_config.json"
_TALK = (FolderUse.CHAT, FolderUse.TRAINING)
_GENERATING = (FolderUse.TRAINING, FolderUse.SERVING, FolderUse.VLLM, FolderUse.CHAT)


def template(source: FolderAccount | None, found: FolderAccount) -> HandoffCheck:
    """Check that the template renders, and renders what the source's does.

    Args:
        source: None if the source does not load.
    """
    name = "chat template"
    if source is None:
        if found.template_error is not None:
            return judged(name, False, f"it fails: {found.template_error}", _TALK)
        return skipped(name, "the source does not load: there is nothing to compare with")
    if not source.has_template and not found.has_template:
        return skipped(name, "the source has none: prompts are completed as they are")
    if found.template_error is not None:
        return judged(name, False, f"it fails: {found.template_error}", _TALK)
    if found.rendered is None or found.rendered != source.rendered:
        return judged(name, False, "it does not render what the source's renders", _TALK)
    plain, prompt = found.rendered
    evidence = f"as the source's; the first prompt as it is sent: {prompt!r:.300}"
    if plain == prompt:
        evidence += "; beware: it adds no generation prompt"
    return judged(name, True, evidence, _TALK, prompt=prompt)


def end_tokens(found: FolderAccount) -> HandoffCheck:
    """Check that a reply's last token, as the template has it, ends a generation.

    A policy learns to end replies with the template's token. A program that reads the end tokens
    from a file without it would continue after it; transformers and most engines read
    generation_config.json.
    """
    name = "end tokens"
    ends = {place: shown_tokens(found, ids) for place, ids in found.ends.items()}
    named = "; ".join(f"{place} names {ids}" for place, ids in ends.items())
    all_ids = {one for ids in found.ends.values() for one in ids}
    if not all_ids:
        return judged(name, False, "no file names one: answers never end", _GENERATING)
    if unknown := sorted(one for one in all_ids if one > found.largest_id):
        return judged(name, False, f"{named}; the tokenizer has no {unknown}", _GENERATING)
    if found.ordinary_ends:
        shown = ", ".join(f"{text!r} ({one})" for one, text in found.ordinary_ends.items())
        told = f"{named}; not special in the tokenizer, so a text with it is cut off there: {shown}"
        return judged(name, False, told, _GENERATING)
    if not found.has_template:
        return judged(name, True, named)
    if found.template_end is None:
        return judged(name, False, f"{named}; {found.template_end_error}", _GENERATING)
    end, text = found.template_end
    missing = [place for place, ids in found.ends.items() if end not in ids]
    told = f"the template ends a reply with {text!r} ({end}); {named}"
    if _GENERATION in missing or _GENERATION not in found.ends or end not in all_ids:
        return judged(name, False, f"{told}: add {end} to {_GENERATION}", _GENERATING)
    beware = "".join(f"; beware: {place} does not name it" for place in missing)
    return judged(name, True, told + beware, _GENERATING)


def generation_settings(found: FolderAccount) -> HandoffCheck:
    """Name the settings that change answers; fail if transformers cannot generate with them."""
    name = "generation settings"
    greedy, sampling = (
        ", ".join(f"{setting} {value}" for setting, value in settings.items())
        for settings in (found.greedy_settings, found.sampling_settings)
    )
    if found.settings_error is not None:
        uses = (FolderUse.TRANSFORMERS, FolderUse.CHAT)
        return judged(name, False, f"with {greedy}, it fails: {found.settings_error}", uses)
    told = [f"{_GENERATION} has none that changes greedy answers"]
    if greedy:
        told = [
            f"beware: {greedy} in {_GENERATION}; with them {found.num_changed} of "
            f"{len(found.answers)} greedy answers differ from those compared here"
        ]
    if sampling:
        told.append(f"of sampling: {sampling}; vLLM heeds them even without do_sample")
    return judged(name, True, "; ".join(told), settings=dict(found.greedy_settings))


def special_tokens(found: FolderAccount) -> HandoffCheck:
    """Check that each special token is one id, and is left out of a shown text."""
    number = len(found.special_tokens)
    if number == 0:
        return skipped("special tokens", "the tokenizer has none")
    broken = ", ".join(map(repr, found.broken_specials))
    evidence = f"{number} become their own id and text again" if not broken else f"not: {broken}"
    return judged(
        "special tokens",
        not found.broken_specials,
        evidence,
        (FolderUse.CHAT, FolderUse.TRAINING),
        ids=dict(found.special_tokens),
    )


def stopping(found: FolderAccount, least_share: float, *, is_asked: bool) -> HandoffCheck:
    """Check that answers end by a special token that generation_config.json names.

    Args:
        is_asked: the prompts are the user's; the built-in ones are for models with a template.
    """
    name = "stopping"
    if not found.has_template and not is_asked:
        return skipped(name, "without a chat template, no answer has to end; give --prompts")
    if not found.answers:
        return skipped(name, "no prompt fits in the context")
    ends = set(found.ends.get(_GENERATION, ())) - found.ordinary_ends.keys()
    num_ended = sum(one.token_ids[-1] in ends for one in found.answers if one.token_ids)
    share = num_ended / len(found.answers)
    longest = max(len(one.token_ids) for one in found.answers)
    evidence = (
        f"{num_ended} of {len(found.answers)} answers ({share:.0%}) end by an end token within "
        f"{longest} tokens; {least_share:.0%} have to"
    )
    return judged(name, share >= least_share, evidence, (FolderUse.CHAT,), share=share)
