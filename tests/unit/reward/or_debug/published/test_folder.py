"""Published sets of broken models: their claims, and their import from end to end."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_reward.app import create_app as create_reward
from assay_reward.or_debug.dataset import benchmark
from assay_reward.or_debug.dataset.leakage import LABEL_WORDS, leaks
from assay_reward.or_debug.evaluate.evaluation import read_tasks
from assay_reward.or_debug.models import instance
from assay_reward.or_debug.models.iis import is_irreducible
from assay_reward.or_debug.models.instance import DropRow, SetColumn, SetRow
from assay_reward.or_debug.models.solver import is_feasible
from assay_reward.or_debug.published.checking import check
from assay_reward.or_debug.published.fixes import read_fix
from assay_reward.or_debug.published.folder import ConversionOrder, Imported, import_set
from assay_reward.or_debug.published.problems import PublishedProblem, read_problems
from assay_reward.settings import RewardSettings
from assay_shared.clients import RewardClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.types import Role, Scored, ScoreRequest, StepRequest, Task
from tests.conftest import Serve
from tests.support.or_debug.models import infeasible
from tests.support.or_debug.published_set import OPTIMUM, broken, entry, write_set
from tests.unit.reward.or_debug.generate.test_folder import assay, files

SETS = {
    "or_debug_bench_hard": {"E": 50, "F": 50},
    "or_debug_bench_test_v2": {"A": 20, "B": 20, "C": 18, "D": 25},
}
#: Their fix makes an integer of a column that was continuous.
UNSOUND = {"lp_typeB_027", "lp_typeB_036", "lp_typeB_038", "lp_typeB_044", "lp_typeB_047"}


def imported(source: Path, output: Path, role: Role | None = Role.TEST) -> Imported:
    order = ConversionOrder(source, role=role, num_processes=2)
    return import_set(output, order, lambda done, total: None)


def instances_of(folder: Path) -> list[instance.Instance]:
    cells = benchmark.read_cells(folder)
    return [one for cell in cells for one in instance.load(folder / cell.name / "dataset.json")]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("published") / "by hand")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.slow
def test_published_problems_keep_their_claims_or_are_left_out_by_name(
    name: str, data_folder: Path, tmp_path: Path
) -> None:
    made = imported(data_folder / "or_debug_bench" / name, tmp_path / "new")
    found = instances_of(tmp_path / "new")
    assert Counter(one.error_type for one in found) == SETS[name]
    for one in found:
        assert one.iis.is_proved
        assert is_irreducible(one.model, one.iis.rows, one.iis.bounds, 10)
        assert is_feasible(one.original(), 10)
    assert made.left_out.keys() == (UNSOUND if "v2" in name else set())
    assert all("published fix gives" in reason for reason in made.left_out.values())
    for claims in made.claims:
        assert claims.num_infeasible == claims.num_fix_read == claims.num_problems
        # The subsets of type B leave out the bound without which they are feasible.
        feasible = claims.num_problems if claims.error_type == "B" else 0
        assert claims.other_subsets.get("feasible", 0) == feasible
        assert claims.num_iis_irreducible == claims.num_problems - feasible
    for task in read_tasks(tmp_path / "new", Role.TEST):
        assert task.environment is not None
        one = instance.Instance.model_validate(task.environment.instance)
        assert leaks(task.prompt, one) == []
        telling = [old for old in one.names.values() if LABEL_WORDS.search(old)]
        assert telling or one.error_type == "A"
        assert all(leaks(f"{task.prompt}\n{old}", one) for old in telling)


@pytest.mark.slow
async def test_every_type_is_imported_checked_shown_and_repaired_over_http(
    published: Path, tmp_path: Path, serve: Serve
) -> None:
    data, shown = tmp_path / "data", tmp_path / "shown.jsonl"
    done = assay("import", str(published), "--output", str(data), "--role", "train")
    assert done.returncode == 0, done.stderr
    assert "9 of 9 problems" in done.stdout
    done = assay("check", str(data), "--processes", "1")
    assert done.returncode == 0, done.stderr
    assert all(f"type_{kind}_hard" in done.stdout for kind in "ABCDEFGHI")
    done = assay("demonstrate", str(data), "--output", str(shown), "--mistake-rate", "0")
    assert "9 episodes" in done.stdout, done.stderr
    tasks = {task.id: task for task in read_tasks(data, Role.TRAIN)}
    async with RewardClient(serve(create_reward(RewardSettings())), retry=NO_RETRY) as client:
        for episode in read_json_lines(shown, Task.model_validate):
            said = [turn.content for turn in episode.history if turn.role == "assistant"]
            turns = (*said, str(episode.gold))
            step = await client.step(StepRequest(task=tasks[episode.id], turns=turns))
            assert step.done
            assert f"Status: optimal, objective {OPTIMUM:g}" in step.observation
            request = ScoreRequest(task=tasks[episode.id], answers=(turns, "gives up"))
            right, wrong = (await client.score(request)).rewards
            assert isinstance(right, Scored)
            assert isinstance(wrong, Scored)
            assert right.value > 0.85
            assert wrong.value == 0.0


@pytest.mark.slow
def test_a_baseline_is_evaluated_on_an_imported_set_and_reported(
    published: Path, tmp_path: Path
) -> None:
    imported(published, tmp_path / "data")
    output = tmp_path / "report"
    done = assay("evaluate", str(tmp_path / "data"), "--policy", "probe", "--output", str(output))
    assert done.returncode == 0, done.stderr
    report = (output / "report.md").read_text()
    assert all(f"{kind}/hard" in report for kind in "ABCDEFGHI")
    assert "by_hand" not in report
    records = [json.loads(line) for line in (output / "episodes.jsonl").read_text().splitlines()]
    assert [record for record in records if record["failure"]] == []


def test_bounds_that_exclude_each_other_are_the_mistake_that_a_policy_is_shown(
    published: Path,
) -> None:
    problem = next(one for one in read_problems(published) if one.error_type == "H")
    found = check(published, problem, "s")
    assert found.is_sound
    assert found.instance is not None
    (name,) = found.instance.root_cause
    column = found.instance.model.column(name)
    assert (column.lower, column.upper) == (50, 15)
    assert f"50 <= {name} <= 15" in found.instance.model.text()
    assert found.instance.iis.rows == ()
    assert {(bound.column, bound.side) for bound in found.instance.iis.bounds} == {
        (name, "lower"),
        (name, "upper"),
    }


@pytest.mark.slow
def test_the_same_set_gives_the_same_bytes(published: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        imported(published, tmp_path / name, role=None)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def told(kind: str, **names: str) -> str:
    """The published sentence of a type, about other rows and columns."""
    text = broken()[kind][1]
    for old, new in names.items():
        text = text.replace(old, new)
    return text


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
        (
            broken()["G"][1].replace("c_85f445_ub", "c1").replace("c_85f445_lb", "c2"),
            (DropRow,) * 2,
        ),
        (told("H", x1="x"), (SetColumn,)),
        (told("I", bound_c45f59_u="c3"), (SetRow,)),
    ],
)
def test_every_form_of_a_published_fix_is_read(
    text: str, kinds: tuple[type[SetRow | SetColumn | DropRow], ...]
) -> None:
    fix = read_fix(text, infeasible())
    assert tuple(type(edit) for edit in fix) == kinds
    first = fix[0]
    if isinstance(first, SetRow) and "back to <=" in text:
        assert (first.row.lower, first.row.upper) == (-float("inf"), 2)
    if isinstance(first, SetRow) and "OPTIMAL SELECTION" in text:
        assert first.row.upper == 14
    if isinstance(first, SetColumn) and "LB" in text:
        assert (first.column.lower, first.column.upper) == (0, 50)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Try harder.", "unknown form: 'Try harder.'"),
        ("", "unknown form"),
        ("Change c1 from <= back to >=", "c1 is to be turned from <= to >=, but it is >="),
        ("Change c9 from >= back to <=", "no row c9"),
        ("Change x back to INTEGER with UB=1.2.3, remove c2", "unknown form"),
        ("Change x back to INTEGER with UB=nan, remove c2", "unknown form"),
        ("Change coefficient of x in c1 from 0.1 back to 0", "not a coefficient"),
        ("Change coefficient of x in c1 from 0.1 back to 1e400", "not a coefficient"),
        ("Remove contradicting constraint x", "no row x"),
        ("Remove chain constraints: c1, c2 and more besides", "unknown form"),
        ("CASCADING CONFLICT: " + "a" * 3000, "unknown form"),
        (told("H", x1="x").replace("LB = -0.0", "LB = inf"), "not a lower side"),
        (told("I", bound_c45f59_u="c1").replace("= 14.0", "= inf"), "not a lower side"),
    ],
)
def test_a_fix_that_cannot_be_done_is_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told.replace("(", r"\(")):
        read_fix(text, infeasible())


def test_problems_that_are_none_are_left_out_each_with_its_reason(
    published: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(published, tmp_path / "copy")
    models = copy / "models"
    shutil.copy(models / "mip_typeA_000.mps", models / "mip_typeB_001.mps")
    (models / "mip_typeC_002.mps").write_bytes(b"\x7fELF\0\1\2\xff")
    fine = models / "mip_typeD_003.mps"
    fine.write_text(fine.read_text().replace(" 14\n", " 4\n").replace(" 3\n", " 9\n"))
    data = json.loads((copy / "dataset.json").read_text())
    data["problems"][4]["ground_truth_fix"] = "Pray."
    data["problems"][5]["original_objective"] += 0.5
    data["problems"][6]["ground_truth_fix"] = "Remove contradicting constraint c_85f445_ub"
    (copy / "dataset.json").write_text(json.dumps(data))
    made = imported(copy, tmp_path / "new")
    reasons = {name[-3:]: reason for name, reason in made.left_out.items()}
    assert reasons.keys() == {"001", "002", "003", "004", "005", "006"}
    assert "no row _force_x0" in reasons["001"]
    assert "mip_typeC_002.mps: not MPS, which is ASCII text" in reasons["002"]
    assert reasons["003"] == "the model is feasible as published"
    assert "unknown form: 'Pray.'" in reasons["004"]
    assert reasons["005"] == "the published fix gives 39, the stated optimum is 39.5"
    assert reasons["006"] == "the model is infeasible after the published fix"
    assert made.num_instances == 3


def test_a_problem_whose_names_are_words_of_the_rules_is_left_out(
    published: Path, tmp_path: Path
) -> None:
    """They could not be told from a name with the mistake in it."""
    copy = shutil.copytree(published, tmp_path / "copy")
    file = copy / "models" / "mip_typeD_003.mps"
    file.write_text(file.read_text().replace("c_key_lower", "reasoning"))
    made = imported(copy, tmp_path / "new")
    assert made.left_out.keys() == {"mip_typeD_003"}
    assert "the prompt says what is wrong: ['reasoning']" in made.left_out["mip_typeD_003"]


def set_of(folder: Path, *entries: dict[str, object]) -> Path:
    (folder / "dataset.json").write_text(json.dumps({"problems": entries}))
    return folder


def packed(folder: Path) -> Path:
    (folder / "dataset.json").write_bytes(b"\x1f\x8b\x08rest")
    return folder


def text(folder: Path, content: str) -> Path:
    (folder / "dataset.json").write_text(content)
    return folder


ONE = entry("p", "A", "Pray.")
MISTAKES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nothing there": (lambda at: at / "nowhere", "no such file or folder"),
    "an empty folder": (lambda at: at, "no dataset.json"),
    "the folder above": (lambda at: set_of(at / "inside", ONE).parent, "there is one in inside"),
    "a packed file": (packed, "gunzip it"),
    "a packed file's name": (lambda at: at / "data.json.gz", "gunzip it"),
    "no JSON": (lambda at: text(at, "not JSON"), "not JSON"),
    "deep JSON": (lambda at: text(at, "[" * 200_000), "not JSON"),
    "a list": (lambda at: text(at, "[]"), "dataset.json"),
    "our own form": (lambda at: text(at, '{"instances": []}'), "our own form"),
    "no problems": (lambda at: set_of(at), "problems: List should have at least 1 item"),
    "no files": (lambda at: set_of(at, ONE), "1 of 1 MPS files are missing, such as models/p.mps"),
    "twice": (lambda at: set_of(at, ONE, ONE), "duplicate problem ids: p"),
    "type J": (lambda at: set_of(at, ONE | {"error_type": "J"}), "problems.0.error_type"),
    "outside": (lambda at: set_of(at, ONE | {"model_file": "../p.mps"}), "model_file of p"),
    "absolute": (lambda at: set_of(at, ONE | {"model_file": "/etc/p.mps"}), "model_file of p"),
    "no MPS": (lambda at: set_of(at, ONE | {"model_file": "models/p.lp"}), "model_file of p"),
    "an id with a slash": (lambda at: set_of(at, ONE | {"problem_id": "../p"}), "problem_id"),
    "NaN": (lambda at: set_of(at, ONE | {"original_objective": float("nan")}), "finite number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_published_set_is_refused_with_what_is_wrong(
    mistake: str, tmp_path: Path
) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "data.json.gz").write_bytes(b"\x1f\x8b\x08rest")
    make, told = MISTAKES[mistake]
    with pytest.raises(DatasetError, match=told):
        imported(make(tmp_path), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_other_commands_say_how_to_import_what_they_were_given(
    published: Path, tmp_path: Path
) -> None:
    for given in (published, published / "dataset.json"):
        with pytest.raises(DatasetError, match="assay or-debug import"):
            read_tasks(given, None)
        with pytest.raises(DatasetError, match="assay or-debug import"):
            benchmark.read_cells(given)
    imported(published, tmp_path / "data")
    cell = tmp_path / "data" / "type_A_hard"
    with pytest.raises(DatasetError, match="check it whole"):
        benchmark.read_cells(cell)
    with pytest.raises(DatasetError, match="give the benchmark's folder"):
        read_tasks(cell / "dataset.json", None)
    with pytest.raises(DatasetError, match="no tasks of role train"):
        read_tasks(tmp_path / "data", Role.TRAIN)
    with pytest.raises(DatasetError, match="in our own form"):
        imported(tmp_path / "data", tmp_path / "new")
    with pytest.raises(InvalidInput, match="not empty"):
        imported(published, tmp_path / "data")


def test_a_claim_about_what_is_not_in_the_model_is_unknown(published: Path) -> None:
    problem = next(one for one in read_problems(published) if one.error_type == "D")

    def kind(*rows: str) -> str:
        claim: PublishedProblem = problem.model_copy(update={"iis_constraints": rows})
        return check(published, claim, "s").published_iis

    assert kind("_chain_constr_1", "_chain_cycle") == "irreducible"
    assert kind("_chain_constr_1", "_chain_cycle", "c0") == "reducible"
    assert kind("_chain_cycle") == "feasible"
    assert kind("_chain_cycle", "elsewhere") == kind() == "unknown"
