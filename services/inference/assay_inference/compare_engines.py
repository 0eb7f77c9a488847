"""Comparison of a checkpoint's greedy answers under each engine, before it is passed on."""

import json
from dataclasses import dataclass
from pathlib import Path

from assay_inference.engines.engine import Engine, ResolvedUpdate
from assay_inference.engines.factory import check_engine, make_engine
from assay_inference.settings import InferenceSettings
from assay_inference.tokenizer import chat_template
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    Completion,
    FinishReason,
    FolderWeights,
    Message,
    PolicyVersion,
    SamplingParams,
)
from assay_shared.weights import checkpoint

_QUESTIONS = ("Hello.", "What is 6 times 7?", "Write solve(x). Return x plus 1.")


@dataclass(frozen=True)
class Answers:
    """An engine's answers, and the number of its tensors compared with the checkpoint's."""

    engine: str
    completions: list[Completion]
    num_compared: int | None
    num_tensors: int | None


@dataclass(frozen=True)
class Verification:
    """The answers of each engine to the same questions, with facts about the tokenizer."""

    special_tokens: dict[str, int]
    end_ids: tuple[int, ...]
    shown_prompt: str
    has_template: bool
    #: Places that do not name the template's end of a reply as an end token.
    disagreements: list[str]
    answers: list[Answers]

    @property
    def num_ended(self) -> int:
        """The number of the first engine's answers not cut off by `max_tokens`."""
        return sum(c.finish_reason is FinishReason.STOP for c in self.answers[0].completions)

    @property
    def differences(self) -> list[str]:
        """Descriptions of differences from the first engine's greedy tokens."""
        first = self.answers[0]
        return [
            f"{other.engine} differs from {first.engine} on question {number} at token "
            f"{_first_difference(a.token_ids, b.token_ids)}"
            for other in self.answers[1:]
            for number, (a, b) in enumerate(zip(first.completions, other.completions, strict=True))
            if a.token_ids != b.token_ids
        ]

    @property
    def largest_logprob_difference(self) -> float:
        """Largest difference of the first engine from any other, in nats, over equal answers."""
        return max(
            (
                abs(x - y)
                for other in self.answers[1:]
                for a, b in zip(self.answers[0].completions, other.completions, strict=True)
                if a.token_ids == b.token_ids
                for x, y in zip(a.logprobs, b.logprobs, strict=True)
            ),
            default=0.0,
        )


async def verify(folder: Path, settings: InferenceSettings, max_tokens: int) -> Verification:
    """Load `folder` with transformers, and with vLLM if the settings name it; compare the answers.

    Raises:
        WeightsRefused: an engine refuses the checkpoint.
        ConfigError: the settings name vLLM, but it cannot run.
    """
    engines = ["transformers"]
    if settings.inference_engine == "vllm" or settings.inference_vllm_python is not None:
        engines.append("vllm")
    answers, vocabulary = [], None
    for name in engines:
        chosen = settings.model_copy(update={"inference_engine": name})
        check_engine(chosen)
        engine = make_engine(chosen)
        try:
            answers.append(await _ask(engine, name, folder, max_tokens))
            vocabulary = vocabulary or engine.vocabulary
        finally:
            await engine.close()
    assert vocabulary is not None
    return _verification(vocabulary, answers, declared_ends(folder, vocabulary))


async def _ask(engine: Engine, name: str, folder: Path, max_tokens: int) -> Answers:
    policy = PolicyVersion(version=0, digest=checkpoint.digest(folder))
    loaded = await engine.load(
        ResolvedUpdate(source=FolderWeights(path=str(folder)), policy=policy)
    )
    greedy = SamplingParams(max_tokens=max_tokens, temperature=0)
    completions = [
        (await engine.generate(_prompt(engine.vocabulary, question), greedy))[0]
        for question in _QUESTIONS
    ]
    return Answers(name, completions, loaded.num_compared, loaded.num_tensors)


def _prompt(vocabulary: PolicyTokenizer, question: str) -> list[int]:
    """Return the question's ids, through the chat template if there is one."""
    try:
        return vocabulary.encode_chat((Message(role="user", content=question),))
    except InvalidInput:
        return vocabulary.encode(question)


def declared_ends(folder: Path, vocabulary: PolicyTokenizer) -> dict[str, frozenset[int]]:
    """Return the end tokens by the place that names them; engines use all of them together."""
    ends = {}
    for name in ("generation_config.json", "config.json"):
        file = folder / name
        named = json.loads(file.read_bytes()).get("eos_token_id") if file.is_file() else None
        if named is not None:
            ends[name] = frozenset(named if isinstance(named, list) else [named])
    if vocabulary.tokenizer.eos_token_id is not None:
        ends["tokenizer"] = frozenset({int(vocabulary.tokenizer.eos_token_id)})
    return ends


def disagreements(vocabulary: PolicyTokenizer, ends: dict[str, frozenset[int]]) -> list[str]:
    """Return a message for each place that does not name the template's end token.

    A policy learns to end replies with the template's token. A program that reads the end tokens
    from such a place would continue after it. A template that fails, or puts nothing after a
    reply, gives a message too.
    """
    if vocabulary.tokenizer.chat_template is None:
        return []
    further = (Message(role="user", content="?"),)
    try:
        # The text after the placeholder reply is the template's own.
        text = chat_template.render_further(vocabulary.tokenizer, further)
        after = vocabulary.encode(text)
    except InvalidInput as error:
        return [f"the chat template: {error.message}"]
    if not after:
        return ["the chat template puts nothing after a reply"]
    end = after[0]
    shown = f"{vocabulary.tokenizer.convert_ids_to_tokens(end)!r} ({end})"
    missing = [
        f"{place} names {sorted(named)}"
        for place, named in (ends | {"all together": vocabulary.end_ids}).items()
        if end not in named
    ]
    return [f"the template ends a reply with {shown}, but {one}" for one in missing]


def _verification(
    vocabulary: PolicyTokenizer, answers: list[Answers], ends: dict[str, frozenset[int]]
) -> Verification:
    tokenizer = vocabulary.tokenizer
    special = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    shown = tokenizer.decode(_prompt(vocabulary, _QUESTIONS[0]), skip_special_tokens=False)
    return Verification(
        special_tokens={str(token): int(number) for token, number in special.items()},
        end_ids=tuple(sorted(vocabulary.end_ids)),
        shown_prompt=str(shown),
        has_template=tokenizer.chat_template is not None,
        disagreements=disagreements(vocabulary, ends),
        answers=answers,
    )


def _first_difference(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    different = (at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(different, min(len(a), len(b)))
