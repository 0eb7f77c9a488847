"""The documents and example files are true."""

import json
import re
import shlex
import subprocess
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
import typer.core
import typer.main
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from assay_inference.settings import InferenceSettings
from assay_judge.config import JudgeConfig
from assay_judge.settings import JudgeSettings
from assay_reward.executor.config import ExecutorConfig
from assay_reward.rubric import Rubrics
from assay_reward.settings import RewardSettings
from assay_reward.verifiers import VERIFIERS
from assay_sandbox.settings import SandboxSettings
from assay_shared.cli import app
from assay_shared.settings.run_file import load_config
from assay_trainer.config import RunConfig
from assay_trainer.inert_rules import refuse_inert
from assay_trainer.settings import TrainerSettings

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT / "configs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SETTINGS = (InferenceSettings, SandboxSettings, JudgeSettings, RewardSettings, TrainerSettings)
RUN_FILES = [
    path
    for path in sorted(CONFIGS.glob("*.yaml"))
    if path.name not in ("judge.yaml", "executor.yaml")
]


def shown(default: object) -> str:
    """A default as .env.example shows it."""
    if default is None or default is PydanticUndefined:
        return ""
    assert not isinstance(default, SecretStr), "a secret has no default"
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_the_example_environment_has_every_setting_with_its_default() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    found = re.findall(r"^(ASSAY_\w+)=(\S*)", "\n".join(lines), re.MULTILINE)
    assert len(found) == len(dict(found)), "a variable stands there twice"
    expected = {
        f"ASSAY_{name.upper()}": shown(field.get_default())
        for cls in SETTINGS
        for name, field in cls.model_fields.items()
    }
    assert dict(found) == expected


@pytest.mark.parametrize("path", RUN_FILES, ids=lambda path: path.name)
def test_every_run_file_loads(path: Path) -> None:
    config = load_config(RunConfig, path)
    assert config.grpo is not None or config.dpo is not None
    refuse_inert(config)


def test_the_judge_executor_and_rubric_files_load() -> None:
    assert len(load_config(JudgeConfig, CONFIGS / "judge.yaml").chain) == 3
    assert len(load_config(ExecutorConfig, CONFIGS / "executor.yaml").models) == 2
    rubrics = Rubrics(CONFIGS / "rubrics")
    for path in (CONFIGS / "rubrics").glob("*.yaml"):
        assert rubrics.find(path.stem).name == path.stem


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere_and_json_is_json(path: Path) -> None:
    text = path.read_text()
    for target in re.findall(r"\]\(([^)#]+)", text) + re.findall(r'src="([^"]+)"', text):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        json.loads(block)


def test_the_built_in_rubrics_are_listed_with_what_they_count_for() -> None:
    """The table equals the output of `assay reward rubrics`."""
    text = (ROOT / "docs" / "reward.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.+) \| (\S+ to \S+) \| (.+%) \|$", text, re.MULTILINE)
    expected = []
    for rubric in Rubrics(None).all():
        info = rubric.info()
        shares = ", ".join(f"`{name}` {share:.0%}" for name, share in info.shares.items())
        reward = f"{info.lowest:g} to {info.highest:g}"
        expected.append((info.name, info.description, reward, shares))
    assert rows == expected


def test_every_verifier_is_documented() -> None:
    pages = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in VERIFIERS if not any(f"`{name}`" in text for text in pages)] == []


def test_every_command_is_documented() -> None:
    text = "\n".join(path.read_text() for path in PAGES)
    missing = [
        entry.name
        for entry in entry_points(group="assay.commands")
        if not re.search(rf"\bassay {entry.name}\b", text)
    ]
    assert missing == []


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
MAX_TUTORIAL_WORDS = 900


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_s_commands_can_be_read_by_the_shell_and_by_assay(path: Path) -> None:
    text = path.read_text()
    assert len(text.split()) <= MAX_TUTORIAL_WORDS
    assert "What went wrong" in text
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        for line in block.splitlines():
            if (call := re.search(r"\.venv/bin/assay (.+)", line)) is not None:
                assert_flags_exist(shlex.split(call[1], comments=True))


def assert_flags_exist(words: list[str]) -> None:
    """Find the command that the words name, and each of their flags among its options."""
    command = typer.main.get_command(app)
    while words and isinstance(command, typer.core.TyperGroup):
        found = command.get_command(typer.Context(command), words.pop(0))
        assert found is not None
        command = found
    flags = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= flags


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(path.read_text() for path in PAGES)
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", text, re.MULTILINE))
    assert named >= {"demo", "test"}
    assert named <= targets


def test_links_within_the_pages_have_their_heading() -> None:
    """GitHub's rule: in lower case, without signs, a hyphen for each space."""
    anchors = {
        path.resolve(): {
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
        }
        for path in PAGES
    }
    missing = [
        f"{path.name}: {target}#{anchor}"
        for path in PAGES
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text())
        if anchor not in anchors.get((path.parent / target if target else path).resolve(), set())
    ]
    assert missing == []


#: The folders that paths of component tables and pictures begin in.
PACKAGES = [*ROOT.glob("services/*"), *ROOT.glob("services/*/assay_*"), ROOT / "shared"]


def folder_of_files(text: str) -> list[Path]:
    """Return the folders to start a page's component table from."""
    named = re.search(r"^Files are in `([\w/]+)`", text, re.MULTILINE)
    return [ROOT / named[1]] if named else PACKAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_component_tables_and_pictures_name_what_exists(path: Path) -> None:
    """A name without a folder lies in the folder of the name before it."""
    text = path.read_text()
    tables = re.findall(r"^\| component \| file .*\n((?:\|.*\n)+)", text, re.MULTILINE)
    for row in re.findall(r"^\| .*", "".join(tables), re.MULTILINE):
        last = ""
        for name in re.findall(r"`([^`]+)`", row.split(" | ")[1]):
            last = name if "/" in name or not last else str(Path(last).parent / name)
            assert any((base / last).exists() for base in folder_of_files(text)), last
    for picture in re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for folder in re.findall(r"\[(\w+)/", picture):
            assert any((base / folder).is_dir() for base in folder_of_files(text)), folder


def test_every_service_has_a_component_table_and_a_picture() -> None:
    for name in ("inference", "judge", "reward", "sandbox", "trainer", "or_debug"):
        text = (ROOT / "docs" / f"{name}.md").read_text()
        assert "| component | file | takes | gives | waits for |" in text, name
        assert re.search(r"^```text\n[^`]*\[\w+/", text, re.MULTILINE), name
