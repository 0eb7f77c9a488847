from collections import Counter
from pathlib import Path

import pytest

from assay_reward.or_debug import original, tasks
from assay_reward.or_debug.iis import is_irreducible
from assay_reward.or_debug.instance import DropRow, SetColumn, SetRow
from assay_reward.or_debug.leakage import LABEL_WORDS, leaks
from assay_reward.or_debug.solver import is_feasible
from assay_shared.errors import DatasetError
from assay_shared.types import Role
from tests.unit.reward.or_debug.models import infeasible

SETS = {
    "or_debug_bench_hard": {"E": 50, "F": 50},
    "or_debug_bench_test_v2": {"A": 20, "B": 25, "C": 18, "D": 25},
}


@pytest.mark.parametrize("name", SETS)
def test_every_published_problem_is_infeasible_and_has_an_irreducible_subset(
    name: str, data_folder: Path
) -> None:
    loaded = original.load(data_folder / "or_debug_bench" / name)
    assert Counter(one.error_type for one in loaded.instances) == SETS[name]
    for one in loaded.instances:
        assert one.iis.is_proved
        assert is_irreducible(one.model, one.iis.rows, one.iis.bounds, 10)
        assert is_feasible(one.original(), 10)
    unsound = {one.problem_id for one in loaded.exceptions}
    assert unsound == {one.id for one in loaded.instances if one.tags["is_sound"] == "no"}
    assert all("the fix gives" in one.reason for one in loaded.exceptions)
    assert len(unsound) == (0 if name == "or_debug_bench_hard" else 5)


@pytest.mark.parametrize("name", SETS)
def test_no_telling_name_of_published_data_reaches_a_prompt(name: str, data_folder: Path) -> None:
    folder = data_folder / "or_debug_bench" / name
    loaded = original.load(folder)
    for one in loaded.instances:
        prompt = tasks.to_task(one, Role.TEST).prompt
        assert leaks(prompt, one) == []
        # The names that were taken away are kept with the instance, and would be found.
        old = [name for name in one.names.values() if LABEL_WORDS.search(name)]
        assert old or one.error_type == "A"
        for name_before in old:
            assert leaks(f"{prompt}\n{name_before}", one)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Change c1 from >= back to <=", (SetRow,)),
        ("Change x back to INTEGER with UB=10.0, remove c2", (SetColumn, DropRow)),
        ("Change coefficient of x in c1 from 0.1 back to 1.0", (SetRow,)),
        ("Remove chain constraints: c1, c2, c3", (DropRow, DropRow, DropRow)),
        ("Remove contradicting constraint c4", (DropRow,)),
        ("Remove BOTH constraints: c1 AND c2. Fixing only one will not do.", (DropRow, DropRow)),
        ("The root cause is constraint 'c1' which requires more. Remove 'c1'.", (DropRow,)),
    ],
)
def test_every_form_of_a_published_fix_is_read(
    text: str, kinds: list[type[SetRow | SetColumn | DropRow]]
) -> None:
    fix = original.read_fix(text, infeasible())
    assert [type(edit) for edit in fix] == list(kinds)
    first = fix[0]
    if isinstance(first, SetRow) and "back to <=" in text:
        assert (first.row.lower, first.row.upper) == (-float("inf"), 2)


def test_what_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such file"):
        original.load(tmp_path)
    (tmp_path / "dataset.json").write_text('{"problems": [{"problem_id": "p"}]}')
    with pytest.raises(DatasetError, match=r"problems.0.model_file"):
        original.load(tmp_path)
