"""Sentinel prompts of five kinds of behaviour, each with a deterministic check of its answer."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product

_LANGUAGES = ("French", "German", "Spanish")
#: English words with accepted words of each language.
_WORDS = {
    "cat": ("chat chatte", "katze kater", "gato gata"),
    "dog": ("chien chienne", "hund", "perro perra"),
    "house": ("maison", "haus", "casa"),
    "water": ("eau", "wasser", "agua"),
    "bread": ("pain", "brot", "pan"),
    "milk": ("lait", "milch", "leche"),
    "book": ("livre", "buch", "libro"),
    "tree": ("arbre", "baum", "árbol arbol"),
    "red": ("rouge", "rot rote roter rotes", "rojo roja"),
    "night": ("nuit", "nacht", "noche"),
    "school": ("école ecole", "schule", "escuela colegio"),
    "friend": ("ami amie", "freund freundin", "amigo amiga"),
    "apple": ("pomme", "apfel", "manzana"),
    "fish": ("poisson", "fisch", "pez pescado"),
}
_TOPICS = (
    "animals",
    "fruits",
    "colours",
    "countries",
    "tools",
    "sports",
    "rivers",
    "metals",
    "planets",
    "vegetables",
    "instruments",
    "professions",
    "buildings",
    "vehicles",
)
_HEADINGS = ("Colour", "Size", "Use")
_NUMBERED = re.compile(r"^\s*(\d+)[.)]\s+\S", re.MULTILINE)
_INTEGER = re.compile(r"\s*,?\s*(-?\d+)")


@dataclass(frozen=True)
class Sentinel:
    """A prompt, and a check that is True for an answer that does what the prompt asks."""

    kind: str
    prompt: str
    holds: Callable[[str], bool]


def sentinels(per_kind: int) -> list[Sentinel]:
    """Return `per_kind` sentinels of each kind, always the same ones."""
    kinds = (_translations(), _lists(), _objects(), _descriptions(), _patterns())
    return [one for kind in kinds for one in islice(kind, per_kind)]


def _translations() -> Iterator[Sentinel]:
    for (word, accepted), place in product(_WORDS.items(), range(3)):
        language = _LANGUAGES[place]
        prompt = f"Translate the English word '{word}' into {language}.\n{language}:"
        yield Sentinel("translation", prompt, _names_one_of(accepted[place].split()))


def _lists() -> Iterator[Sentinel]:
    for topic, number in product(_TOPICS, (3, 4, 5)):
        prompt = f"Write a numbered list of exactly {number} {topic}, and nothing else.\n"
        yield Sentinel("numbered list", prompt, _has_items(number))


def _objects() -> Iterator[Sentinel]:
    for topic, second in product(_TOPICS, ("size", "price", "rank")):
        prompt = (
            f"Pick one of the {topic}. Answer with a JSON object with exactly the keys "
            f'"name" and "{second}".\n'
        )
        yield Sentinel("JSON", prompt, _has_keys({"name", second}))


def _descriptions() -> Iterator[Sentinel]:
    for topic, order in product(_TOPICS, range(3)):
        headings = [*_HEADINGS[order:], *_HEADINGS[:order]]
        asked = ", ".join(f"'{one}:'" for one in headings)
        prompt = f"Describe one of the {topic} in three lines, which begin with {asked}.\n"
        yield Sentinel("structured description", prompt, _has_lines(headings))


def _patterns() -> Iterator[Sentinel]:
    for start, step in product(range(1, 15), (2, 3, 5)):
        shown = ", ".join(str(start + step * place) for place in range(5))
        yield Sentinel("pattern completion", f"{shown},", _begins_with(start + step * 5))


def _names_one_of(accepted: list[str]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        first = next((line for line in text.splitlines() if line.strip()), "")
        return bool(set(re.findall(r"\w+", first.lower())) & set(accepted))

    return holds


def _has_items(number: int) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        return [int(one) for one in _NUMBERED.findall(text)] == list(range(1, number + 1))

    return holds


def _has_keys(keys: set[str]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            found, _ = json.JSONDecoder().raw_decode(text, max(0, text.find("{")))
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict) and set(found) == keys

    return holds


def _has_lines(headings: list[str]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        lines = [line.strip() for line in text.splitlines() if line.strip()][:3]
        return len(lines) == 3 and all(
            re.match(rf"[*_\-\s]*{heading}[*_]*:[*_]*\s*\w", line) is not None
            for heading, line in zip(headings, lines, strict=True)
        )

    return holds


def _begins_with(number: int) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        found = _INTEGER.match(text)
        return found is not None and int(found[1][:20]) == number

    return holds
