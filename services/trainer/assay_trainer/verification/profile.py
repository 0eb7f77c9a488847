"""The behaviour profile: how often answers do what sentinel prompts ask, in each form."""

from collections.abc import Mapping, Sequence

from assay_shared.statistics.interval import wilson_interval
from assay_shared.types.wire import Wire
from assay_trainer.verification.asking import ProbeReply
from assay_trainer.verification.model_tokens import ModelTokens
from assay_trainer.verification.probes import ProbeForm
from assay_trainer.verification.sentinels import Sentinel

_CONFIDENCE = 0.95
ALL = "all"


class SharedCount(Wire):
    """A count, with the share's 95% interval of Wilson; without one if nothing was counted."""

    num: int
    num_asked: int
    share: float | None = None
    low: float | None = None
    high: float | None = None


class FormProfile(Wire):
    """The answers to a kind's sentinels in one form."""

    does_as_asked: SharedCount
    #: The answer ended before its limit of tokens.
    ended: SharedCount
    #: The answer has a control token before its end.
    has_control_token: SharedCount


class KindProfile(Wire):
    """A kind of behaviour: raw and templated, and the sentinels on which the two differ."""

    kind: str
    raw: FormProfile
    template: FormProfile | None
    num_raw_alone: int | None = None
    num_template_alone: int | None = None


def profile_of(
    asked: Sequence[Sentinel], replies: Mapping[str, ProbeReply], tokens: ModelTokens
) -> tuple[KindProfile, ...]:
    """Return the profile of each kind, and of all of them."""
    kinds = [*dict.fromkeys(one.kind for one in asked), ALL]
    numbered = list(enumerate(asked))
    return tuple(
        _kind(kind, [(i, one) for i, one in numbered if kind in (one.kind, ALL)], replies, tokens)
        for kind in kinds
    )


def _kind(
    kind: str,
    asked: Sequence[tuple[int, Sentinel]],
    replies: Mapping[str, ProbeReply],
    tokens: ModelTokens,
) -> KindProfile:
    raw = _answers(asked, ProbeForm.RAW, replies)
    if not tokens.has_template:
        return KindProfile(kind=kind, raw=_form(raw, tokens), template=None)
    other = _answers(asked, ProbeForm.TEMPLATE, replies)
    both = [
        (one.holds(raw[i][1].text), one.holds(other[i][1].text))
        for i, one in asked
        if i in raw and i in other
    ]
    return KindProfile(
        kind=kind,
        raw=_form(raw, tokens),
        template=_form(other, tokens),
        num_raw_alone=sum(first and not second for first, second in both),
        num_template_alone=sum(second and not first for first, second in both),
    )


Answers = dict[int, tuple[Sentinel, ProbeReply]]


def _answers(
    asked: Sequence[tuple[int, Sentinel]], form: ProbeForm, replies: Mapping[str, ProbeReply]
) -> Answers:
    """Return the answers by their sentinel's number; a refused prompt has none."""
    keys = {i: f"sentinel-{i}/{form.name.lower()}" for i, _ in asked}
    return {i: (one, replies[keys[i]]) for i, one in asked if replies[keys[i]].refused is None}


def _form(answers: Answers, tokens: ModelTokens) -> FormProfile:
    found = list(answers.values())
    ends = tokens.end_ids | {tokens.tokenizer.eos_token_id}
    chat = set(tokens.control) - ends
    return FormProfile(
        does_as_asked=_count([one.holds(reply.text) for one, reply in found]),
        ended=_count([reply.ended for _, reply in found]),
        has_control_token=_count([bool(chat & set(reply.answer_ids)) for _, reply in found]),
    )


def _count(found: Sequence[bool]) -> SharedCount:
    if not found:
        return SharedCount(num=0, num_asked=0)
    interval = wilson_interval(sum(found), len(found), _CONFIDENCE)
    return SharedCount(
        num=sum(found),
        num_asked=len(found),
        share=interval.value,
        low=interval.low,
        high=interval.high,
    )
