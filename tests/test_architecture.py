"""The shape of the code is tested like its behaviour."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from assay_shared import cli

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "assay_shared",
    "assay_inference",
    "assay_sandbox",
    "assay_judge",
    "assay_reward",
    "assay_trainer",
)
MODULES = sorted(
    path
    for top in ("shared", "services")
    for path in (ROOT / top).rglob("*.py")
    if ".venv" not in path.parts
)
MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 50
MAX_FILES_IN_A_FOLDER = 15
#: Tables: each file is one more entry.
PLUG_INS = {
    "services/reward/assay_reward/verifiers",
    "services/trainer/assay_trainer/data/importers",
}
VAGUE = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py", "base.py", "manager.py"}
VAGUE_SUFFIXES = ("Manager", "Handler", "Processor", "Helper")
#: Packages that `assay --help` imports: the parser's, and the services' own without their modules.
STARTED_WITH_HELP = {*PACKAGES, "typer", "shellingham", "annotated_doc"}
TRANSPORTS = {"fastapi", "starlette", "uvicorn", "celery", "kombu"}
#: Skins: the only modules of a service that may know its transport.
SKINS = {"app.py", "command.py"}
SKIN_FOLDERS = {"api"}
#: The trainer's side of the queue.
QUEUE = {"rollouts/tasks.py", "rollouts/dispatcher.py"}
ONLY_IN_ONE = {"trl", "vllm", "sglang"}
#: Imported by vLLM's workers alone, where `weight_transfer` is on the path, or where Triton is.
IN_VLLM_OR_ON_GPUS = {
    "assay_inference.engines.vllm.worker.seeded_noise",
    "assay_inference.engines.vllm.worker.vllm_worker",
    "assay_shared.standalone.weight_transfer.fingerprint_kernel",
}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def imported(path: Path) -> set[str]:
    """Return the top-level names of all imports of a module, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_stay_small_and_well_named(path: Path) -> None:
    source = path.read_text()
    assert path.name not in VAGUE
    assert source.count("\n") <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(VAGUE_SUFFIXES), node.name


def test_a_folder_is_read_at_a_glance() -> None:
    """Except `__init__.py`: it describes the folder."""
    files = Counter(name(path.parent) for path in MODULES if path.name != "__init__.py")
    crowded = {folder for folder, number in files.items() if number > MAX_FILES_IN_A_FOLDER}
    assert crowded == PLUG_INS


def test_each_folder_says_what_it_is() -> None:
    for folder in sorted({path.parent for path in MODULES} - {ROOT / "shared"}):
        first = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
        assert first, f"{name(folder)}/__init__.py has no docstring"


def test_a_class_name_has_one_meaning() -> None:
    """Private names are of their file alone."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name(path))
    assert {found: files for found, files in places.items() if len(files) > 1} == {}


def test_slots_import_the_standard_library_alone() -> None:
    """And numpy, to make a value of a program."""
    slot = ROOT / "services/sandbox/assay_sandbox/slot"
    for path in sorted(slot.rglob("*.py")):
        assert imported(path) <= sys.stdlib_module_names | {"assay_sandbox", "numpy"}, name(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("assay_"):
                assert (node.module or "").startswith("assay_sandbox.slot"), name(path)


def is_skin(path: Path) -> bool:
    return path.name in SKINS or path.parent.name in SKIN_FOLDERS


def test_names_imported_inside_vllm_exist() -> None:
    """mypy does not follow these imports: their modules are on the path of vLLM's workers alone."""
    worker = ROOT / "services/inference/assay_inference/engines/vllm/worker"
    standalone = ROOT / "shared/assay_shared/standalone"
    missing = []
    for path in worker.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            parts = node.module.split(".")
            places = [worker.joinpath(*parts), standalone.joinpath(*parts)]
            for file in (place.with_suffix(".py") for place in places):
                if file.exists():
                    names = {alias.name for alias in node.names} - defined(file)
                    missing += [f"{path.name}: {node.module}.{one}" for one in names]
    assert missing == []


def defined(file: Path) -> set[str]:
    """Return the names of a module's top level."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in MODULES
        if "services" in p.parts and not is_skin(p) and "/".join(p.parts[-2:]) not in QUEUE
    ],
    ids=name,
)
def test_core_modules_know_no_transport(path: Path) -> None:
    assert not imported(path) & TRANSPORTS


def test_each_big_library_is_imported_by_one_file() -> None:
    for library in ONLY_IN_ONE:
        files = [name(path) for path in MODULES if library in imported(path)]
        assert len(files) <= 1, f"{library}: {files}"


def test_broad_handlers_stay_at_the_boundaries() -> None:
    """The HTTP handler (FastAPI's own), the CLI, the engine's thread (its turns, each step,
    each reading of a prompt, each sample, each answer), the parser of formulas, the queue's
    messages, the worker processes, and experiment trackers.

    What runs a program's code or test code, in a slot, must outlive whatever that raises.
    """
    in_slots = {"harness.py", "ending.py", "remote.py", "program_side.py", "grader.py", "values.py"}
    found = [
        name(path)
        for path in MODULES
        if path.name not in in_slots and "except Exception" in path.read_text()
    ]
    assert sorted(found) == [
        "services/inference/assay_inference/engines/transformers/decoder.py",
        "services/inference/assay_inference/engines/transformers/engine.py",
        "services/inference/assay_inference/engines/transformers/jobs.py",
        "services/inference/assay_inference/engines/transformers/prompt_reading.py",
        "services/inference/assay_inference/engines/transformers/schedule.py",
        "services/trainer/assay_trainer/pipeline/trackers.py",
        "shared/assay_shared/answers/formulas/proof.py",
        "shared/assay_shared/cli.py",
        "shared/assay_shared/runs/screened_queue.py",
        "shared/assay_shared/runtime/worker_process.py",
    ]


def all_modules() -> list[str]:
    return [
        info.name
        for package in PACKAGES
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, package + ".")
        if info.name not in IN_VLLM_OR_ON_GPUS
    ]


@pytest.mark.slow
def test_importing_does_nothing() -> None:
    """In an environment with nonsense in every ASSAY_ variable, all modules still import."""
    code = f"""
import importlib, logging, threading
before = threading.active_count()
for module in {all_modules()!r}:
    importlib.import_module(module)
assert threading.active_count() == before, threading.enumerate()
assert not logging.getLogger().handlers, logging.getLogger().handlers
"""
    nonsense = {"ASSAY_LOG_LEVEL": "nonsense", "ASSAY_BODY_LIMIT_BYTES": "nonsense"}
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **nonsense}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120, cwd=ROOT)


def test_help_is_quick() -> None:
    """It imports typer alone, and 300 modules at most; seconds would measure the machine."""
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom assay_shared import cli\n"
        "try:\n    cli.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "new = set(sys.modules) - before\n"
        "print(len(new), *{name.partition('.')[0] for name in new})"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    number, *libraries = shown.stdout.splitlines()[-1].split()
    assert int(number) <= 300
    assert set(libraries) <= sys.stdlib_module_names | STARTED_WITH_HELP


def test_each_command_has_a_summary() -> None:
    assert [entry.name for entry in cli._installed() if not cli.summary(entry)] == []


def test_no_file_names_a_registry_or_this_machine() -> None:
    """Requirements are versions alone, and nothing holds an absolute path of a developer."""
    telling = ("pypi.org", "files.pythonhosted", "registry.npmjs", "find-links", "/root/", "/work/")
    tracked = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    for file in tracked:
        if file != name(Path(__file__)):
            text = (ROOT / file).read_text(errors="replace")
            assert not [word for word in telling if word in text], file


def test_a_unit_test_lies_where_its_module_does() -> None:
    """`tests/unit/<package>/<room>/test_<module>.py`, or `test_<module>_<aspect>.py`."""
    for test in sorted((ROOT / "tests/unit").rglob("test_*.py")):
        package, *rooms = test.parent.relative_to(ROOT / "tests/unit").parts
        top = ROOT / ("shared" if package == "shared" else f"services/{package}")
        room = top / f"assay_{package}" / "/".join(rooms)
        words = test.stem.removeprefix("test_").split("_")
        named = ["_".join(words[:end]) for end in range(1, len(words) + 1)]
        assert any((room / f"{module}.py").exists() for module in named), name(test)
