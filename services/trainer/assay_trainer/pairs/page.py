"""Some pairs for people: a page of HTML and a text."""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import write_atomically
from assay_shared.text.html_pages import templates_in
from assay_shared.text.markdown import visible
from assay_trainer.pairs.candidates import Candidate

HTML, TEXT = "sample.html", "sample.txt"
_TEMPLATES = Path(__file__).parent / "templates"
_MOST_SHOWN = 4000


def write_pages(
    folder: Path,
    name: str,
    pairs: Sequence[Candidate],
    numbers: Mapping[str, Any],
    num_shown: int,
    seed: int,
) -> None:
    """Write sample.html and sample.txt: the numbers, and `num_shown` pairs by chance."""
    places = random.Random(f"{seed}/shown pairs").sample(
        range(len(pairs)), min(num_shown, len(pairs))
    )
    rows = [_row(pairs[place]) for place in sorted(places)]
    facts = list(lines_of(numbers))
    page = templates_in(_TEMPLATES).get_template("pairs.html.j2")
    write_atomically(folder / HTML, page.render(name=name, facts=facts, rows=rows))
    told = [f"{title}: {value}" for title, value in facts]
    text = "\n".join([*told, *(line for row in rows for line in _text(row))])
    write_atomically(folder / TEXT, f"{text}\n")


def lines_of(numbers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a folder for people: a name, and a value with its interval."""
    for name, value in numbers.items():
        title = name.replace("_", " ").removeprefix("num ")
        if isinstance(value, Mapping) and "low" in value:
            yield title, f"{value['value']:.3g} ({value['low']:.3g} to {value['high']:.3g})"
        elif isinstance(value, Mapping):
            told = ", ".join(f"{key.replace('_', ' ')} {one}" for key, one in value.items())
            yield title, told or "none"
        else:
            yield title, "not measured" if value is None else f"{value:.6g}"


def _row(one: Candidate) -> dict[str, Any]:
    pair = one.pair
    return {
        "id": one.task.id,
        "type": pair.type.replace("_", " "),
        "chosen_score": f"{pair.chosen_score:g}",
        "rejected_score": f"{pair.rejected_score:g}",
        "messages": [
            {"role": said.role, "content": said.content[:_MOST_SHOWN]} for said in one.task.messages
        ],
        "chosen": pair.chosen.text[:_MOST_SHOWN],
        "rejected": pair.rejected.text[:_MOST_SHOWN],
        "chosen_evidence": _evidence(pair.chosen.details),
        "rejected_evidence": _evidence(pair.rejected.details),
    }


def _evidence(details: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {found}" for name, found in details.items())[:_MOST_SHOWN]


def _text(row: Mapping[str, Any]) -> Iterator[str]:
    yield "=" * 80
    yield visible(f"{row['id']}: {row['type']}, {row['chosen_score']} : {row['rejected_score']}")
    for said in row["messages"]:
        yield visible(f"--- {said['role']}\n{said['content']}")
    for name in ("chosen", "rejected"):
        yield visible(f"--- {name} ({row[f'{name}_evidence']})\n{row[name]}")
