"""A key without a value is refused with its name, or changes nothing that Kubernetes needs.

In YAML `judge:` alone, as a comment below it leaves it, is null. Helm removes such a key and its
default.
"""

import re
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml

from tests.deploy.chart.test_schema import PART
from tests.support.chart.parts import PARTS
from tests.support.chart.rendering import CHART, VERSIONS, at, check, merge, render

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
#: Quantities and labels: an entry without a value is one that a pod or an object lacks.
FREE = re.compile(r"^global$|(^|\.)(resources|labels)\..")
#: The sandbox does not start without a limit of its memory: tests of the sandbox say so.
NEEDED = "sandbox.resources.limits.memory"


def sections(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each mapping of the values: its path and its keys."""
    if values:
        yield path, list(values)
    for key, value in values.items():
        if isinstance(value, dict):
            yield from sections(value, f"{path}.{key}".lstrip("."))


SECTIONS = [(path, key) for path, keys in sections(DEFAULTS) for key in keys]
KEYS = [f"{path}.{key}".lstrip(".") for path, key in SECTIONS]
REQUIRED = {
    path: {key for at_path, key in SECTIONS if at_path == path and not FREE.search(f"{path}.{key}")}
    for path, _ in SECTIONS
}
REQUIRED[""] -= {"global"}


def depth(path: str) -> int:
    return len(path.split(".")) if path else 0


@pytest.mark.parametrize("level", sorted({depth(path) for path, keys in REQUIRED.items() if keys}))
def test_every_key_without_a_value_is_refused_with_its_name(level: int) -> None:
    """All sections of one level at once: each is named with all its keys."""
    expected = {path: keys for path, keys in REQUIRED.items() if keys and depth(path) == level}
    values: dict[str, Any] = {}
    for path, keys in expected.items():
        nulls = dict.fromkeys(keys)
        values = merge(values, at(path, nulls) if path else nulls)
    with pytest.raises(helm_python.HelmValuesError) as caught:
        render(values)
    lines = re.findall(r"at '(.*)': missing propert(?:y|ies) (.*)", str(caught.value))
    found = {
        place[1:].replace("/", "."): set(re.findall(r"'(\w+)'", names)) for place, names in lines
    }
    assert found == expected


def test_quantities_labels_and_globals_without_a_value_are_left_out() -> None:
    values: dict[str, Any] = {}
    for path in filter(FREE.search, KEYS):
        if not path.endswith((".requests", ".limits", NEEDED)):
            *above, last = path.split(".")
            values = merge(values, at(".".join(above), {last: None}) if above else {last: None})
    assert values["judge"]["resources"] == {
        "requests": dict.fromkeys(("cpu", "memory", "ephemeral-storage")),
        "limits": {"memory": None},
    }
    check(render(values), VERSIONS[-1:])
    for kind in ("requests", "limits"):
        values = {}
        for part in PARTS:
            if (part, kind) != ("sandbox", "limits"):
                values = merge(values, at(f"{part}.resources.{kind}", None))
        check(render(values), VERSIONS[-1:])


def test_what_a_part_takes_without_a_line_of_its_own_is_refused_without_a_value() -> None:
    names = set(PART) - {"resources"}
    for part in PARTS:
        with pytest.raises(helm_python.HelmValuesError) as caught:
            render(at(part, dict.fromkeys(names)))
        place = re.escape("/" + part.replace(".", "/"))
        assert set(re.findall(rf"'{place}/(\w+)': got null", str(caught.value))) == names
