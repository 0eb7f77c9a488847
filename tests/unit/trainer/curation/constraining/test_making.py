"""Instructions with constraints: what is asked is what the verifier checks."""

import json
import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from assay_reward.answers.constraints.instructions import KINDS, Instructions
from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.types import Role, Task
from assay_trainer.curation.constraining.kinds import TEMPLATES, sample_constraints
from assay_trainer.curation.constraining.making import ConstrainOrder, make_constrained


def order(folder: Path, *, num_instructions: int = 40) -> ConstrainOrder:
    """An order of 30 tasks from a file with instructions, one of them twice and one long."""
    prompts = [f"Name {number} rivers of Europe." for number in range(num_instructions)]
    prompts += [prompts[0].upper(), "long " * 200]
    tasks = [
        Task(id=f"p/{at}", role=Role.TRAIN, prompt=one, rubric="qa")
        for at, one in enumerate(prompts)
    ]
    file = folder / "prompts.jsonl"
    file.write_text("".join(f"{one.model_dump_json()}\n" for one in tasks))
    return ConstrainOrder(
        sets=(str(file),),
        output=folder / "made",
        num_train=20,
        num_held_out=10,
        most_constraints=3,
        max_characters=400,
        kinds=(),
        seed=1,
    )


def read(folder: Path, name: str) -> list[Task]:
    lines = (folder / name).read_text().splitlines()
    return [Task.model_validate_json(line) for line in lines]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.name)
def test_the_verifier_reads_the_arguments_of_each_kind(template) -> None:  # type: ignore[no-untyped-def]
    assert template.name in KINDS
    for seed in range(20):
        given, wording = template.sample(random.Random(seed), "Name a river.")
        Instructions(instruction_id_list=(template.name,), kwargs=(given,))
        for value in given.values():
            told = value if isinstance(value, list) else [value]
            if template.name != "combination:repeat_prompt":
                assert all(str(one).lower() in wording.lower() for one in told)


def test_constraints_of_a_task_go_together() -> None:
    by_name = {one.name: one for one in TEMPLATES}
    assert len(by_name) == len(TEMPLATES)
    for seed in range(200):
        found = sample_constraints(random.Random(seed), "Name a river.", 3, TEMPLATES)
        kinds = [by_name[name] for name, _, _ in found]
        assert all(not a.parts & b.parts for a, b in combinations(kinds, 2))
        assert len(found) == 1 or not any("whole" in one.parts for one in kinds)


def test_the_two_files_share_no_prompt_and_the_seed_decides_all(tmp_path: Path) -> None:
    given = order(tmp_path)
    numbers = make_constrained(given)
    train, held_out = read(given.output, "train.jsonl"), read(given.output, "held_out.jsonl")
    assert {one.role for one in train} == {Role.TRAIN}
    assert {one.role for one in held_out} == {Role.VALIDATION}
    assert len(train) == 20
    assert len(held_out) == 10
    ids = {one.id for one in (*train, *held_out)}
    assert len(ids) == 30
    assert numbers["left_out"] == {"twice": 1, "empty or over 400 characters": 1}
    stored = json.loads((given.output / "metrics.json").read_text())
    assert stored["overall"] == numbers
    again = replace(given, output=tmp_path / "again")
    make_constrained(again)
    for name in ("train.jsonl", "held_out.jsonl"):
        assert (again.output / name).read_text() == (given.output / name).read_text()


def test_too_few_instructions_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    told = "30 instructions are needed, 20 for training and 10 held out, and the sets have 29; left"
    with pytest.raises(DatasetError, match=told):
        make_constrained(order(tmp_path, num_instructions=29))
    given = replace(order(tmp_path), kinds=("punctuation:no_colon",))
    with pytest.raises(InvalidInput, match=r"'punctuation:no_colon'; known: .*no_comma"):
        make_constrained(given)


def test_published_rows_are_refused_with_the_way_to_import_them(tmp_path: Path) -> None:
    path = tmp_path / "alpaca.jsonl"
    path.write_text(json.dumps({"instruction": "Name a river.", "output": "The Elbe."}) + "\n")
    with pytest.raises(DatasetError, match=r"alpaca\.jsonl:1") as refused:
        make_constrained(replace(order(tmp_path), sets=(str(path),)))
    assert "assay data import" in (refused.value.hint or "")
