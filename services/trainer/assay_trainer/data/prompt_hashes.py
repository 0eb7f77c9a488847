"""Hashes of prompts by their letters and digits, and search for many prompts inside of a text.

Case, space, punctuation, tags and entities do not count. A prompt is found in a longer text too: in
a chat's instruction, between fences, or in an answer. A short one is found as a whole text alone.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from assay_shared.errors import DatasetError
from assay_shared.types import Task
from assay_trainer.data.dress import versions
from assay_trainer.data.options import set_hash, windows
from assay_trainer.data.reduction import Form, Hashes, Reduced, cleaned, reduced
from assay_trainer.data.words import words_of

#: A prompt of fewer words or characters is found as a whole text alone: it may stand in another
#: text by chance.
MIN_WORDS, MIN_LETTERS = 8, 24
#: Of signs, a longer run is needed, since few signs are used.
_MIN_WORDS_AND_SIGNS = 12
#: A shorter question of multiple choice is one of several rows: its options tell the row.
_MIN_QUESTION_WORDS = 10
#: A start is looked up by its first bits before it is looked up among all starts.
_FIRST_BITS = 20


class KeyKind(IntEnum):
    """What a key is a hash of."""

    #: The prompt as published: its letters and digits, and all its signs.
    LETTERS = 0
    SIGNS = 1
    #: The prompt with Assay's instruction.
    SHOWN_LETTERS = 2
    SHOWN_SIGNS = 3
    #: A question with its options as `A. x`, and without labels.
    LETTERED = 4
    BARE = 5
    #: A set of options, whose hash is `start`, of a question with the hash `whole`.
    OPTIONS = 6

    @property
    def form(self) -> Form:
        """Return the form of the text."""
        return Form.SIGNS if self in (KeyKind.SIGNS, KeyKind.SHOWN_SIGNS) else Form.LETTERS


@dataclass(frozen=True)
class PromptKey:
    """One hash of a prompt: of its first `MIN_LETTERS` characters, and of all of them.

    `size` is the number of words, or of options. A key that is not a run is compared with whole
    texts alone.
    """

    kind: KeyKind
    is_run: bool
    size: int
    length: int
    start: int
    whole: int


def keys_of(question: str, shown: str, options: Sequence[str] = ()) -> list[PromptKey]:
    """Return all keys of a prompt, as published and as Assay shows it."""
    words = _num_words(question)
    least = _MIN_QUESTION_WORDS if options else MIN_WORDS
    letters = _key(KeyKind.LETTERS, question, words, words >= least)
    signs = reduced([cleaned(question)], Form.SIGNS)
    units = words + len(signs) - letters.length
    is_run = not options and units >= _MIN_WORDS_AND_SIGNS
    found = [letters, _key(KeyKind.SIGNS, question, units, is_run)]
    found += [
        _key(kind, shown, _num_words(shown), wanted=False)
        for kind in (KeyKind.SHOWN_LETTERS, KeyKind.SHOWN_SIGNS)
    ]
    if options:
        names = [f"{chr(ord('A') + at)}. {text}" for at, text in enumerate(options)]
        for kind, texts in ((KeyKind.LETTERED, names), (KeyKind.BARE, options)):
            text = "\n".join([question, *texts])
            number = _num_words(text)
            found.append(_key(kind, text, number, number >= MIN_WORDS))
        of_set = set_hash(map(cleaned, options))
        size = len(options)
        found.append(PromptKey(KeyKind.OPTIONS, False, size, letters.length, of_set, letters.whole))
    return found


def _num_words(text: str) -> int:
    return sum(word[0].isalnum() for word in words_of(cleaned(text)))


def _key(kind: KeyKind, text: str, size: int, wanted: bool) -> PromptKey:
    """Return the hash of a text; as a run if it is wanted, and the text is long enough."""
    found = reduced([cleaned(text)], kind.form)
    length = len(found)
    start = found.run(0, min(length, MIN_LETTERS))
    is_run = wanted and length >= MIN_LETTERS
    return PromptKey(kind, is_run, size, length, start, found.run(0, length))


class _Index:
    """Prompts in one form."""

    def __init__(self) -> None:
        self._wholes: dict[tuple[int, int], str] = {}
        self._long: dict[int, dict[int, dict[int, str]]] = {}
        self._is_first = np.zeros(2**_FIRST_BITS, dtype=bool)

    def add(self, key: PromptKey, name: str) -> None:
        if key.is_run:
            by_length = self._long.setdefault(key.start, {})
            by_length.setdefault(key.length, {})[key.whole] = name
        else:
            self._wholes[key.length, key.whole] = name

    def settle(self) -> None:
        starts = np.fromiter(self._long, dtype=np.uint64, count=len(self._long))
        self._is_first[self._first(starts)] = True

    def find(self, text: Reduced) -> str | None:
        """Return the name of a set with a prompt that is one of the texts, or stands in them."""
        begin = 0
        for end in text.ends:
            if name := self._wholes.get((end - begin, text.run(begin, end - begin))):
                return name
            begin = end
        if len(text) < MIN_LETTERS or not self._long:
            return None
        runs = text.runs(MIN_LETTERS)
        places = np.flatnonzero(self._is_first[self._first(runs)])
        for at in places.tolist():
            by_length = self._long.get(int(runs[at]))
            if by_length and (name := self._at(text, at, by_length)):
                return name
        return None

    def _at(self, text: Reduced, at: int, by_length: dict[int, dict[int, str]]) -> str | None:
        for length, wholes in by_length.items():
            if at + length <= len(text):
                name = wholes.get(text.run(at, length))
                # 12 is not found in 123.
                if name and not text.cuts_number(at) and not text.cuts_number(at + length):
                    return name
        return None

    def _first(self, hashes: Hashes) -> Hashes:
        return hashes >> np.uint64(64 - _FIRST_BITS)


class PromptHashes:
    """Prompts of named sets, to search texts for."""

    def __init__(self, sets: Iterable[tuple[str, Sequence[Sequence[PromptKey]]]]) -> None:
        self._indexes = {form: _Index() for form in Form}
        self._options: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self.counts: dict[str, int] = {}
        sizes = set()
        for name, prompts in sets:
            self.counts[name] = self.counts.get(name, 0) + len(prompts)
            keys = [key for one in prompts for key in one]
            for key in keys:
                if key.kind is KeyKind.OPTIONS:
                    self._options[key.start].append((key.length, key.whole, name))
                    sizes.add(key.size)
                else:
                    self._indexes[key.kind.form].add(key, name)
        self._sizes = sorted(sizes)
        for index in self._indexes.values():
            index.settle()

    def find(self, *texts: str) -> str | None:
        """Return the name of a set with a prompt that is a text, or stands in them; or None.

        The texts are searched one after another as one text, too.
        """
        for version in versions(texts):
            plain = [cleaned(text) for text in version]
            for form, index in self._indexes.items():
                found = reduced(plain, form)
                if name := index.find(found) or (
                    self._by_options(plain, found) if form is Form.LETTERS else None
                ):
                    return name
        return None

    def find_in(self, task: Task, *answers: str | None) -> str | None:
        """Return the name of a set with a prompt in a task, or in answers to it; or None.

        A prompt may stand in any message, or in the messages of the user together.
        """
        before = [message.content for message in task.history]
        texts = [*before, task.prompt, *(one for one in (task.gold, *answers) if one)]
        name = self.find(*texts)
        users = [message.content for message in task.messages if message.role == "user"]
        if name is None and len(users) > 1:
            name = self.find("\n".join(users))
        return name

    def _by_options(self, texts: Sequence[str], letters: Reduced) -> str | None:
        """Return the name of a set with these options whose question stands in the texts too."""
        if not self._options:
            return None
        for text in texts:
            for of_set in windows(text, self._sizes):
                for length, whole, name in self._options.get(of_set, ()):
                    if 0 < length <= len(letters) and (letters.runs(length) == whole).any():
                        return name
        return None


def text_of(task: Task) -> str:
    """Return all that a task shows a policy before its answer."""
    return "\n".join([*(message.content for message in task.history), task.prompt])


class KeyTable:
    """The keys of a folder's or a set's prompts, with the number of each prompt: 56 bytes each."""

    _WIDTH = 7

    def __init__(self) -> None:
        self._values = array("Q")
        self.num_prompts = 0

    @classmethod
    def of(cls, prompts: Iterable[Iterable[PromptKey]]) -> "KeyTable":
        """Return a table of prompts."""
        table = cls()
        for keys in prompts:
            table.add(keys)
        return table

    def add(self, keys: Iterable[PromptKey]) -> None:
        """Add the keys of a prompt."""
        for key in keys:
            self._values.extend((self.num_prompts, *map(int, astuple(key))))
        self.num_prompts += 1

    def __iter__(self) -> Iterator[list[PromptKey]]:
        """Yield the keys of each prompt."""
        found: list[list[PromptKey]] = [[] for _ in range(self.num_prompts)]
        for at in range(0, len(self._values), self._WIDTH):
            number, kind, is_run, *numbers = self._values[at : at + self._WIDTH]
            found[number].append(PromptKey(KeyKind(kind), bool(is_run), *numbers))
        yield from found

    def write(self, path: Path, name: str) -> None:
        """Write the keys under the name of their set."""
        table = np.array(self._values, dtype=np.uint64).reshape(-1, self._WIDTH)
        arrays: dict[str, Any] = {name: table}
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        with partial.open("wb") as file:
            np.savez_compressed(file, **arrays)
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> "dict[str, KeyTable]":
        """Return the sets of a file.

        Raises:
            DatasetError: the file cannot be read, or is of an older form.
        """
        found = {}
        try:
            with np.load(path, allow_pickle=False) as file:
                for name in file:
                    table = file[name]
                    if table.ndim != 2 or table.shape[1] != cls._WIDTH:
                        raise DatasetError(
                            f"{path} has hashes of an older form",
                            hint="import the set and register it again",
                        )
                    found[name] = one = cls()
                    one._values = array("Q", table.astype(np.uint64).tobytes())
                    one.num_prompts = int(table[:, 0].max()) + 1 if len(table) else 0
        except (OSError, ValueError, EOFError, TypeError) as error:
            raise DatasetError(f"{path} cannot be read: {error}") from None
        return found
