"""Answers in a required language or script."""

import math
from typing import Self

from pydantic import Field, model_validator

from assay_reward.answers.language import is_script, known_languages, language_of, script_share
from assay_reward.verifiers.verifier import AnswerContext, GroupContext, Measurement, Verifier
from assay_shared.settings.run_file import Config
from assay_shared.types import Status


class LanguageOptions(Config):
    """Either `languages` (ISO 639-1) or `scripts` (Unicode's names), not both.

    The language of a text with fewer than `min_letters` cannot be told, so the text passes.
    """

    languages: tuple[str, ...] = Field(default=(), max_length=16)
    scripts: tuple[str, ...] = Field(default=(), max_length=16)
    min_letters: int = Field(default=20, ge=1)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.languages) == bool(self.scripts):
            raise ValueError("give exactly one of languages and scripts")
        unknown = [name for name in self.scripts if not is_script(name)]
        if unknown:
            raise ValueError(f"Unicode has no script called {unknown[0]!r}")
        # Loads the model now, before the service starts to serve, because loading takes a second.
        unknown = [code for code in self.languages if code not in known_languages()]
        if unknown:
            raise ValueError(f"the language {unknown[0]!r} cannot be told")
        return self


def _language(candidate: AnswerContext, options: LanguageOptions) -> Measurement:
    """Return 1 or 0 for languages; for scripts, the share of letters in these scripts."""
    text = candidate.text
    if options.scripts:
        share = script_share(text, options.scripts)
        return _found(share, f"{share:.0%} of the letters")
    if sum(map(str.isalpha, text)) < options.min_letters:
        return _found(1.0, "too short to tell")
    language = language_of(text)
    return _found(float(language in options.languages), f"in {language}")


def _reads(group: GroupContext, options: LanguageOptions) -> float:
    return 16.0 if options.scripts else math.inf


def _found(value: float, detail: str) -> Measurement:
    outcome = Status.ACCEPTED if value == 1.0 else Status.WRONG_ANSWER
    return Measurement(value, outcome, detail)


LANGUAGE = Verifier(_language, LanguageOptions, reads=_reads)
