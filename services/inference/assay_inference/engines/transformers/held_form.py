"""Structured output of the engine `transformers`: a mask of allowed tokens per step.

llguidance compiles forms. Counts bound its work on a grammar, a regular expression or a step, so
no form takes long: larger forms are refused.
"""

import json
from typing import TYPE_CHECKING

import numpy as np
import torch

from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.errors import InvalidInput
from assay_shared.types import Structure

if TYPE_CHECKING:  # only a type: few requests need it
    from llguidance import LLMatcher

_FIELD = "sampling.structure"
_MAX_FORM_BYTES = 256 * 1024
_MAX_ERROR_CHARACTERS = 300
#: Characters of whitespace between two parts of JSON: a small model may else write nothing else.
_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,32}"


class HeldForm:
    """The form of a sample, and its state."""

    def __init__(self, matcher: "LLMatcher", size: int) -> None:
        self._matcher = matcher
        self._size = size

    @classmethod
    def compile(cls, structure: Structure, vocabulary: PolicyTokenizer) -> "HeldForm":
        """Compile a form for a vocabulary. Takes up to a second the first time: not for an event
        loop.

        Raises:
            InvalidInput: it is too large, or cannot constrain answers.
        """
        from llguidance import LLMatcher, LLParserLimits

        limits = LLParserLimits(verbose_errors=False)
        grammar = _grammar(structure)
        matcher = LLMatcher(vocabulary.index, grammar, log_level=0, limits=limits)
        form = cls(matcher, vocabulary.size)
        form.allowed()
        return form

    def copy(self) -> "HeldForm":
        """Return a fresh copy, for another sample."""
        return HeldForm(self._matcher.deep_copy(), self._size)

    def allowed(self) -> torch.Tensor:
        """Return the tokens allowed next, (V,) of bools.

        Raises:
            InvalidInput: the form's state takes too much to compute.
        """
        bits = self._matcher.compute_bitmask() if not self._matcher.is_error() else b""
        if self._matcher.is_error():
            reason = " ".join(self._matcher.get_error().split())[:_MAX_ERROR_CHARACTERS]
            raise InvalidInput(f"no answer can be held to this form: {reason}", field=_FIELD)
        bools = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
        allowed_V = torch.zeros(self._size, dtype=torch.bool)
        known = min(self._size, len(bools))
        allowed_V[:known] = torch.from_numpy(bools[:known].astype(bool))
        return allowed_V

    def take(self, token_id: int) -> bool:
        """Advance by a token; return True if the form is complete and nothing can follow."""
        self._matcher.consume_token(token_id)
        return bool(self._matcher.is_stopped()) and not self._matcher.is_error()


def _grammar(structure: Structure) -> str:
    from llguidance import LLMatcher

    if structure.regex is not None:
        return str(LLMatcher.grammar_from_regex(structure.regex))
    if structure.choice is not None:
        texts = " | ".join(json.dumps(text) for text in structure.choice)
        return str(LLMatcher.grammar_from_lark(f"start: {texts}"))
    schema = {"type": "object"} if structure.json_object else structure.json_schema
    text = json.dumps(schema)
    if len(text) > _MAX_FORM_BYTES:
        raise InvalidInput(
            f"a schema has at most {_MAX_FORM_BYTES} bytes, not {len(text)}", field=_FIELD
        )
    # The schema's own options would let it leave out what is not known, without a word.
    return str(
        LLMatcher.grammar_from_json_schema(
            text,
            overrides={
                "whitespace_pattern": _WHITESPACE,
                "lenient": False,
                "coerce_one_of": False,
            },
        )
    )
