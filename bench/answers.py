"""Checks answer equality on real data sets: gold answers in models' notations, and wrong answers.

    ASSAY_DATA=/folder python bench/answers.py [--limit ROWS] [--output FILE]

Each gold answer is compared, as by the rubric `math`, with itself in the notations of models. It is
also compared with wrong answers: those of the next rows, and itself with a changed sign, digit,
operator, unit or word. The options of multiple-choice sets are named in the usual ways, and in ways
to choose nothing or another option. A row is not gradable if no comparison was possible.
"""

import argparse
import asyncio
import gzip
import itertools
import json
import os
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from assay_shared.answers.choices.choice import chosen_letter
from assay_shared.answers.choices.options import LETTERS, ChoiceOptions, is_there_twice
from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.answers.extraction import final_answer, whole_reference
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import AssayError

#: Name, file and the column of the answer.
COLUMNS = (
    ("MATH", "math/math_train_2000.jsonl.gz", "answer"),
    ("AIME 1983-2023", "aime_amc/aime_1983_2023.jsonl.gz", "answer"),
    ("AIME 2024", "aime_amc/aime_2024.jsonl.gz", "answer"),
    ("AMC 2022-2023", "aime_amc/amc_2022_2023_test.jsonl.gz", "answer"),
    ("DeepMath", "rl_prompts/deepmath_750.jsonl.gz", "ground_truth"),
    ("Multi-subject RLVR", "rl_prompts/multi_subject_rlvr_1000.jsonl.gz", "ground_truth"),
    ("GSM8K train", "gsm8k/train.jsonl", "answer"),
    ("GSM8K test", "gsm8k/test.jsonl", "answer"),
)
CHOICES = (
    ("MMLU test", "mmlu/test.jsonl.gz"),
    ("ARC challenge", "arc/arc_challenge_test.jsonl.gz"),
    ("CommonsenseQA dev", "commonsenseqa/dev_rand_split.jsonl.gz"),
)
_NEIGHBOURS = 2
_TIMEOUT_S = 10.0
_UNITS = (
    ("km", "cm"),
    ("cm", "m"),
    ("hours", "minutes"),
    ("dollars", "cents"),
    ("square", "cubic"),
)
_OPERATORS = {"+": "-", "-": "+", "<": ">", "\\le": "\\ge", "\\cup": "\\cap"}


@dataclass
class Table:
    """The result for a data set: rows by outcome, and the comparisons with a wrong result."""

    name: str
    rows: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[str, str, str]] = field(default_factory=list)
    mistaken: list[tuple[str, str, str]] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)

    def line(self) -> str:
        pairs = self.pairs
        return (
            f"| {self.name} | {self.rows.total():,} | {self.rows['right']:,}"
            f" | {self.rows['wrong']:,} | {self.rows['not gradable']:,}"
            f" | {pairs['right']:,} of {pairs['own']:,}"
            f" | {pairs['mistaken']:,} of {pairs['other']:,} |"
        )


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            yield json.loads(line)


def own_renderings(gold: str) -> dict[str, str]:
    """Return the gold answer in models' notations, by the name of the notation."""
    gold = whole_reference(gold)
    found = {
        "boxed": rf"Adding up gives \boxed{{{gold}}}.",
        "boxed in maths": rf"So the answer is $\boxed{{{gold}}}$.",
        "plain": gold,
        "tagged": f"Some thought.\n<answer>{gold}</answer>",
        "marked": f"Some thought.\n#### {gold}",
        "in text": rf"\boxed{{\text{{{gold}}}}}" if gold.replace(" ", "").isalpha() else "",
        "dfrac": rf"\boxed{{{gold.replace(chr(92) + 'frac', chr(92) + 'dfrac')}}}",
        "spaced": rf"\boxed{{ {_spaced(gold)} }}",
    }
    found |= _of_number(gold)
    return {name: text for name, text in found.items() if text}


def _spaced(gold: str) -> str:
    """Return the answer with a space around each sign outside words and commands."""
    if re.search(r"[A-Za-z]{2,}(?<!frac)(?<!sqrt)(?<!pi)", gold):
        return gold
    return re.sub(r"(?<=[\w})])([-+])(?=[\w\\({])", r" \1 ", gold)


def number_of(gold: str) -> Fraction | None:
    """Return the value of a plain whole number, decimal or LaTeX fraction, by independent rules."""
    bare = gold.replace(",", "").replace("$", "").replace("\\", "").replace("_", "x").strip()
    if "," in gold and not re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", gold.strip("$\\ ")):
        return None
    if (parts := re.fullmatch(r"(-?)[dt]?frac\{(\d+)\}\{(\d+)\}", bare)) is not None:
        bare = f"{parts[1]}{parts[2]}/{parts[3]}"
    try:
        return Fraction(bare)
    except (ValueError, ZeroDivisionError):
        return None


def _of_number(gold: str) -> dict[str, str]:
    value = number_of(gold)
    if value is None:
        return {}
    found = {
        "with a unit": "" if "$" in gold else rf"It weighs \boxed{{{gold}\text{{ units}}}}.",
        "in a sentence": f"First 3 of them, and so on. The answer is {gold}.",
    }
    if value.denominator == 1:
        found["with .0"] = rf"\boxed{{{value}.0}}"
        found["as a fraction"] = rf"\boxed{{\frac{{{2 * value}}}{{2}}}}"
    elif set(_factors(value.denominator)) <= {2, 5}:
        found["as a decimal"] = rf"\boxed{{{_decimal(value)}}}"
    if abs(value) >= 1000 and value.denominator == 1:
        found["with commas"] = rf"\boxed{{{int(value):,}}}"
        found["with LaTeX commas"] = rf"\boxed{{{f'{int(value):,}'.replace(',', '{,}')}}}"
        found["with thin spaces"] = rf"\boxed{{{f'{int(value):,}'.replace(',', chr(92) + ',')}}}"
    return found


def _factors(number: int) -> Iterator[int]:
    for factor in (2, 5):
        while number % factor == 0:
            number //= factor
            yield factor
    if number > 1:
        yield number


def _decimal(value: Fraction) -> str:
    places = next(n for n in itertools.count(1) if (value * 10**n).denominator == 1)
    digits = f"{int(abs(value) * 10**places):0>{places + 1}}"
    return f"{'-' * (value < 0)}{digits[:-places]}.{digits[-places:]}"


def changed(gold: str, rng: random.Random) -> dict[str, str]:
    """Return the gold answer with a single change to make it wrong, by the name of the change."""
    gold = whole_reference(gold)
    found: dict[str, str] = {}
    digits = [place for place, letter in enumerate(gold) if letter in "0123456789"]
    if digits:
        place = rng.choice(digits)
        found["digit"] = (
            f"{gold[:place]}{(int(gold[place]) + rng.randint(1, 9)) % 10}{gold[place + 1 :]}"
        )
        found["one more digit"] = f"{gold[: digits[-1] + 1]}7{gold[digits[-1] + 1 :]}"
    if number_of(gold):
        found["sign"] = gold[1:] if gold.startswith("-") else f"-{gold}"
        found["factor"] = f"{gold}x"
        found["and another"] = f"{gold} \\text{{ or }} {gold}1"
        found["power"] = f"({gold})^{{3}}" if number_of(gold) not in (0, 1, -1) else ""
    operators = [(m.start(), m.group()) for m in re.finditer(r"[-+<]|\\le\b|\\cup", gold)]
    if operators and re.search(r"\d|\\", gold) and "\\text" not in gold:
        place, operator = rng.choice(operators)
        found["operator"] = gold[:place] + _OPERATORS[operator] + gold[place + len(operator) :]
    for one, other in _UNITS:
        if re.search(rf"(?<![A-Za-z]){one}(?![A-Za-z])", gold):
            found["unit"] = re.sub(rf"(?<![A-Za-z]){one}(?![A-Za-z])", other, gold, count=1)
    if re.fullmatch(r"[A-Za-z ,'-]{3,}", gold):
        found["negated"] = f"not {gold}"
        found["or another"] = f"{gold} or something else"
    return {name: text for name, text in found.items() if text}


def really_differ(one: str, other: str) -> bool:
    """Return True if two answers of a data set differ, by rules independent of the tested code."""
    first, second = (
        re.sub(r"\\text|\\[!,; ]|[\s${}.]|(?<=\\)[dt](?=frac)", "", t) for t in (one, other)
    )
    if first.casefold() == second.casefold():
        return False
    values = number_of(one), number_of(other)
    return None in values or values[0] != values[1]


async def compare(answer: str, reference: str, symbolic: Symbolic) -> bool:
    """Return True if the answer equals the reference, as the rubric `math` decides."""
    if answer.strip() == whole_reference(reference):
        return True
    given = final_answer(answer)
    if given is None:
        return False
    try:
        return settled(given, whole_reference(reference)) is True
    except NeedsProof:
        return await symbolic.equal(given, whole_reference(reference))


async def grade_row(table: Table, golds: list[str], at: int, symbolic: Symbolic) -> None:
    """Compare a gold answer with all its renderings and with wrong answers; fill the table."""
    gold, rng = golds[at], random.Random(at)
    if not gold.strip():
        table.rows["not gradable"] += 1
        table.failed.append(("no reference", gold, ""))
        return
    others = {f"row {n} further": golds[(at + n) % len(golds)] for n in range(1, _NEIGHBOURS + 1)}
    wrong = {n: whole_reference(t) for n, t in others.items()} | changed(gold, rng)
    wrong = {
        n: rf"\boxed{{{t}}}" for n, t in wrong.items() if really_differ(t, whole_reference(gold))
    }
    outcomes: set[str] = set()
    for name, text, own in [
        *((name, text, True) for name, text in own_renderings(gold).items()),
        *((name, text, False) for name, text in wrong.items()),
    ]:
        table.pairs["own" if own else "other"] += 1
        try:
            equal = await compare(text, gold, symbolic)
        except AssayError as error:
            table.failed.append((name, gold, f"{text}: {error}"))
            outcomes.add("failed")
            continue
        if equal and own:
            table.pairs["right"] += 1
        elif equal:
            table.pairs["mistaken"] += 1
            table.mistaken.append((name, gold, text))
        elif own:
            table.missed.append((name, gold, text))
        outcomes.add("right" if equal == own else "wrong")
    table.rows[
        "wrong" if "wrong" in outcomes else "not gradable" if "failed" in outcomes else "right"
    ] += 1


def golds_of(name: str, path: Path, column: str) -> list[str]:
    """Return the column's answers. GSM8K's come after ####; AMC's are decimals of whole numbers."""
    golds = [row[column] for row in rows_of(path)]
    if name.startswith("GSM8K"):
        return [gold.rpartition("####")[2].strip() for gold in golds]
    return [f"{gold:g}" if isinstance(gold, float) else str(gold) for gold in golds]


async def grade_columns(folder: Path, limit: int | None) -> list[Table]:
    """Return a table for each set; `limit` samples at most this many rows of a set."""
    symbolic = Symbolic(_TIMEOUT_S)
    tables = []
    try:
        for name, file, column in COLUMNS:
            table = Table(name)
            golds = golds_of(name, folder / file, column)
            rows = range(len(golds))
            if limit is not None and limit < len(golds):
                rows = random.Random(0).sample(rows, limit)  # type: ignore[assignment]
            for at in rows:
                await grade_row(table, golds, at, symbolic)
            tables.append(table)
            print(table.line(), file=sys.stderr, flush=True)
    finally:
        symbolic.close()
    return tables


def options_of(row: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """Return the options of a row of MMLU, ARC or CommonsenseQA, and the right letter."""
    if "choices" in row:
        return tuple(row["choices"]), LETTERS[row["answer"]]
    if "answerKey" in row:
        choices = row["question"]["choices"]
        return tuple(choice["text"] for choice in choices), row["answerKey"]
    labels = row["label"]
    return tuple(str(row[label]) for label in labels), LETTERS[labels.index(row["answer"])]


def chosen_ways(letter: str, text: str) -> dict[str, str]:
    """Return the usual ways to choose an option, by name."""
    return {
        "letter": letter,
        "lower case": letter.lower(),
        "in brackets": f"({letter})",
        "boxed": rf"It follows that \boxed{{{letter}}}.",
        "boxed in text": rf"$\boxed{{\text{{{letter}}}}}$",
        "text": text,
        "both": f"{letter}) {text}",
        "bold": f"**{letter}. {text}**",
        "the answer is": f"Let us see.\nThe answer is ({letter}).",
        "the answer is both": f"Therefore, the correct answer is **{letter}) {text}**.",
        "Answer:": f"Some thought.\n\nAnswer: {letter}",
        "is correct": f"So, {letter} is correct.",
        "last line": f"Some thought.\n{letter}",
        "option": f"I choose option {letter}.",
        "tagged": f"<answer>{letter}</answer>",
        "marked": f"#### {letter}",
        "in Chinese": f"所以答案是{letter}",
        "with a reason": f"The answer is {letter} because nothing else fits.",
    }


def unchosen_ways(letter: str, text: str, other: str, other_text: str) -> dict[str, str]:
    """Return answers without a choice of the option, by name."""
    return {
        "other letter": other,
        "other text": other_text,
        "either": f"The answer is {letter} or {other}.",
        "both": f"{letter}, {other}",
        "negated": f"The answer is not {letter}.",
        "is wrong": f"Option {letter} is wrong.",
        "hedged": f"Perhaps {letter}, perhaps {other}.",
        "taken back": f"The answer is {letter}. No, wait, it is {other}.",
        "other's text": f"{letter}) {other_text}",
        "question": f"Is the answer {letter}? No, it is {other}.",
        "condition": f"If the answer is {letter} then all is lost. Hence {other}.",
        "eliminated": f"I would eliminate option {letter}. So {other}.",
        "because": f"The answer is {other} because option {letter} is wrong.",
        "options listed": f"{letter}) {text}\n{other}) {other_text}",
    }


def grade_choices(folder: Path, limit: int | None) -> list[Table]:
    """Return a table for each multiple-choice set; `limit` as for `grade_columns`."""
    tables = []
    for name, file in CHOICES:
        table = Table(name)
        rows = list(rows_of(folder / file))
        if limit is not None and limit < len(rows):
            rows = random.Random(0).sample(rows, limit)
        for row in rows:
            _grade_choice(table, *options_of(row))
        tables.append(table)
        print(table.line(), file=sys.stderr, flush=True)
    return tables


def _grade_choice(table: Table, texts: tuple[str, ...], letter: str) -> None:
    if is_there_twice(texts, letter):
        table.rows["not gradable"] += 1
        table.failed.append(("another option is the same", letter, str(texts)))
        return
    options, at = ChoiceOptions(texts), LETTERS.index(letter)
    other = (at + 1) % len(texts)
    own = chosen_ways(letter, texts[at])
    wrong = unchosen_ways(letter, texts[at], LETTERS[other], texts[other])
    before = len(table.missed) + len(table.mistaken)
    for name, text in own.items():
        table.pairs["own"] += 1
        if chosen_letter(text, options) == letter:
            table.pairs["right"] += 1
        else:
            table.missed.append((name, letter, text))
    for name, text in wrong.items():
        table.pairs["other"] += 1
        if chosen_letter(text, options) == letter:
            table.pairs["mistaken"] += 1
            table.mistaken.append((name, letter, text))
    table.rows["right" if len(table.missed) + len(table.mistaken) == before else "wrong"] += 1


def report(tables: list[Table]) -> str:
    """Return the table in Markdown; below it, the errors of each notation with examples."""
    lines = [
        "| set | rows | right | wrong | not gradable | own found equal | others found equal |",
        "|---|---|---|---|---|---|---|",
        *(table.line() for table in tables),
        "",
    ]
    for table in tables:
        for kind in ("mistaken", "missed", "failed"):
            counts: dict[str, list[str]] = defaultdict(list)
            for name, gold, text in getattr(table, kind):
                counts[name].append(f"{gold!r}: {text!r}")
            for name, examples in sorted(counts.items(), key=lambda item: -len(item[1])):
                lines.append(f"{table.name}, {kind}, {name}: {len(examples)}")
                lines += [f"    {example[:200]}" for example in examples[:_EXAMPLES]]
    return "\n".join(lines)


_EXAMPLES = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", type=int, help="at most this many rows of each set, at random")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    folder = Path(os.environ["ASSAY_DATA"])
    tables = grade_choices(folder, arguments.limit)
    tables += asyncio.run(grade_columns(folder, arguments.limit))
    text = report(tables)
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
