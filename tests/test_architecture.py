"""The shape of the code is tested like its behaviour."""

import ast
import importlib
import pkgutil
import resource
import subprocess
import sys
from pathlib import Path

import pytest

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
#: The one file of wire types is read as a reference, and must stay one.
MAX_TYPES_LINES = 1550
VAGUE = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py", "base.py", "manager.py"}
VAGUE_SUFFIXES = ("Manager", "Handler", "Processor", "Helper")
HEAVY = {"torch", "vllm", "sglang", "transformers", "trl", "celery", "fastapi", "pydantic"}
#: Skins: the only modules of a service that may know its transport.
SKINS = {"app.py", "logprobs_api.py", "openai_api.py", "upload_api.py", "tasks.py", "command.py"}
TRANSPORTS = {"fastapi", "starlette", "uvicorn"}
ONLY_IN_ONE = {"trl", "vllm", "sglang"}
#: Imported by vLLM's workers on a GPU alone: it needs Triton.
ON_GPUS_ALONE = {"assay_inference.vllm_child.seeded_noise"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(path: Path) -> set[str]:
    """Top-level names of everything that a module imports, anywhere in it."""
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
    limit = MAX_TYPES_LINES if path.name == "types.py" else MAX_FILE_LINES
    assert source.count("\n") <= limit
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(VAGUE_SUFFIXES), node.name


@pytest.mark.parametrize(
    "path", [p for p in MODULES if "services" in p.parts and p.name not in SKINS], ids=name
)
def test_core_modules_know_no_transport(path: Path) -> None:
    assert not imported(path) & TRANSPORTS


def test_each_big_library_is_imported_by_one_file() -> None:
    for library in ONLY_IN_ONE:
        files = [name(path) for path in MODULES if library in imported(path)]
        assert len(files) <= 1, f"{library}: {files}"


def test_broad_handlers_stay_at_the_boundaries() -> None:
    """The HTTP handler (FastAPI's own), the CLI, the engine's thread (its turns, each step,
    each reading of a prompt, each row's text), the parser of formulas, the queue's messages, and
    the worker processes.

    What runs a program's code or test code, in a slot, must outlive whatever that raises.
    """
    in_slots = {"harness.py", "ending.py", "remote.py", "program_side.py", "grader.py", "values.py"}
    found = [
        name(path)
        for path in MODULES
        if path.name not in in_slots and "except Exception" in path.read_text()
    ]
    assert sorted(found) == [
        "services/inference/assay_inference/engine_transformers.py",
        "services/inference/assay_inference/prompt_reading.py",
        "services/inference/assay_inference/running.py",
        "services/inference/assay_inference/schedule.py",
        "shared/assay_shared/answers/proof.py",
        "shared/assay_shared/cli.py",
        "shared/assay_shared/screened_queue.py",
        "shared/assay_shared/worker_process.py",
    ]


def all_modules() -> list[str]:
    return [
        info.name
        for package in PACKAGES
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, package + ".")
        if info.name not in ON_GPUS_ALONE
    ]


def test_importing_does_nothing() -> None:
    """In an environment where every ASSAY_ variable is nonsense, all modules still import."""
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


def test_listing_commands_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom assay_shared import cli\n"
        "print([cli.summary(entry) for entry in cli._installed()])\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    summaries, heavy = shown.stdout.strip().splitlines()
    assert "''" not in summaries, "every command has a docstring"
    assert heavy == "[]"


def test_help_is_quick() -> None:
    """Under half a second of processor time: the clock would measure who else is at work."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "assay_shared.cli", "--help"],
            capture_output=True,
            check=True,
            timeout=60,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < 0.5


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
