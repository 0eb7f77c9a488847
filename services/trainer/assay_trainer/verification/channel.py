"""The verdict on the channel: do raw prompts reach the engine as the tokenizer has them?"""

from collections.abc import Mapping, Sequence
from typing import Literal

from assay_shared.types.wire import Wire
from assay_trainer.verification.asking import ProbeReply
from assay_trainer.verification.model_tokens import ModelTokens
from assay_trainer.verification.probes import ChannelProbe, ProbeForm

#: Findings that are written out.
_MAX_FINDINGS = 100
_MAX_TOKENS_TOLD = 10


class ControlToken(Wire):
    """A control token in an input."""

    position: int
    id: int
    token: str


class ChannelFinding(Wire):
    """A raw prompt that did not reach the engine as it is."""

    prompt: str
    num_tokens: int
    #: At most ten of them.
    control_tokens: tuple[ControlToken, ...]
    num_control_tokens: int
    #: The first position where the input differs from the tokenizer's ids; null if it does not.
    differs_at: int | None

    @property
    def is_unclean(self) -> bool:
        return bool(self.num_control_tokens) or self.differs_at is not None


class PlantedControl(Wire):
    """Inputs with something planted, and how many of them the check found."""

    form: ProbeForm
    num_sent: int
    num_found: int
    num_by_tokens: int
    num_by_difference: int


class ChannelVerdict(Wire):
    """CLEAN, NOT_CLEAN, or UNPROVEN: a control was missed, or nothing could be planted."""

    verdict: Literal["CLEAN", "NOT_CLEAN", "UNPROVEN"]
    num_prompts: int
    num_tokens: int
    #: Raw prompts that the service refused, as longer than the context; they were not checked.
    num_too_long: int
    num_with_bos: int
    num_unclean: int
    findings: tuple[ChannelFinding, ...]
    controls: tuple[PlantedControl, ...]


def judge_channel(
    probes: Sequence[ChannelProbe], replies: Mapping[str, ProbeReply], tokens: ModelTokens
) -> ChannelVerdict:
    """Return the verdict over the whole of each input."""
    raw = [one for one in probes if one.form is ProbeForm.RAW]
    sent = [(one, replies[one.key].prompt_ids) for one in raw if replies[one.key].refused is None]
    found = [find_unclean(one.prompt, ids, tokens) for one, ids in sent]
    unclean = [one for one in found if one.is_unclean]
    controls = tuple(
        _control(form, probes, replies, tokens)
        for form in ProbeForm
        if form is not ProbeForm.RAW and any(one.form is form for one in probes)
    )
    proven = bool(sent) and all(one.num_found == one.num_sent > 0 for one in controls)
    verdict: Literal["CLEAN", "NOT_CLEAN", "UNPROVEN"] = "CLEAN" if proven else "UNPROVEN"
    return ChannelVerdict(
        verdict="NOT_CLEAN" if unclean else verdict,
        num_prompts=len(sent),
        num_tokens=sum(len(ids) for _, ids in sent),
        num_too_long=len(raw) - len(sent),
        num_with_bos=sum(tokens.bos is not None and ids[:1] == (tokens.bos,) for _, ids in sent),
        num_unclean=len(unclean),
        findings=tuple(unclean[:_MAX_FINDINGS]),
        controls=controls,
    )


def find_unclean(prompt: str, ids: Sequence[int], tokens: ModelTokens) -> ChannelFinding:
    """Return what the ids of a raw prompt have that its text does not, if anything."""
    places = tokens.positions_of_control(ids)
    return ChannelFinding(
        prompt=prompt,
        num_tokens=len(ids),
        control_tokens=tuple(
            ControlToken(position=place, id=ids[place], token=tokens.control[ids[place]])
            for place in places[:_MAX_TOKENS_TOLD]
        ),
        num_control_tokens=len(places),
        differs_at=_first_difference(ids, tokens.own_ids(prompt)),
    )


def _control(
    form: ProbeForm,
    probes: Sequence[ChannelProbe],
    replies: Mapping[str, ProbeReply],
    tokens: ModelTokens,
) -> PlantedControl:
    """Return what was found; a planted token has to be found as a token."""
    of_form = [one for one in probes if one.form is form and replies[one.key].refused is None]
    found = [find_unclean(one.prompt, replies[one.key].prompt_ids, tokens) for one in of_form]
    by_tokens = sum(bool(one.num_control_tokens) for one in found)
    plants_tokens = form not in (ProbeForm.TEMPLATE, ProbeForm.TEXT)
    return PlantedControl(
        form=form,
        num_sent=len(found),
        num_found=by_tokens if plants_tokens else sum(one.is_unclean for one in found),
        num_by_tokens=by_tokens,
        num_by_difference=sum(one.differs_at is not None for one in found),
    )


def _first_difference(sent: Sequence[int], own: Sequence[int]) -> int | None:
    for place, (one, other) in enumerate(zip(sent, own, strict=False)):
        if one != other:
            return place
    return None if len(sent) == len(own) else min(len(sent), len(own))
