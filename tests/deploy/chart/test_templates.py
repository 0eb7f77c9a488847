"""Every template has its tests, and sets only variables known to the services."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.support.chart.rendering import CHART, EXAMPLES, ROOT, environment, example, merge, render

HERE = Path(__file__).parent / "templates"
TEMPLATES = sorted(
    str(path.relative_to(CHART / "templates")) for path in (CHART / "templates").rglob("*.yaml")
)
#: They contain no fixed object.
OTHERS = {"shared/checks.yaml", "shared/extra-objects.yaml"}
MODULES = sorted(HERE.glob("test_*.py"))


def subjects(module: Path) -> set[str]:
    disabled = importlib.import_module(f"tests.deploy.chart.templates.{module.stem}").DISABLED
    return set(disabled)


def test_every_template_has_a_test_and_each_test_a_template() -> None:
    found = [name for module in MODULES for name in subjects(module)]
    assert sorted(found) == [name for name in TEMPLATES if name not in OTHERS]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_the_first_test_is_that_it_renders_nothing_when_disabled(module: Path) -> None:
    functions = [
        node.name
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert functions[0] == "test_it_renders_nothing_when_disabled"


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - OTHERS))
def test_a_template_is_one_resource(name: str) -> None:
    text = (CHART / "templates" / name).read_text()
    assert len(re.findall(r"^apiVersion:", text, re.MULTILINE)) == 1
    assert "\n---" not in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_variable_is_one_that_services_read(name: str) -> None:
    everything = {
        "monitoring": {"traces": {"endpoint": "http://collector:4318"}},
        "trainer": {"weightTransfer": "direct" if name == EXAMPLES[2] else "folder"},
    }
    known = set(re.findall(r"^(ASSAY_\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    for owner, pod in render(merge(example(name), everything)).pods():
        unknown = {key for key in environment(pod) if key.startswith("ASSAY_")} - known
        assert unknown == set(), owner
