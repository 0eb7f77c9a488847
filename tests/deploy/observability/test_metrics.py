"""docs/metrics.md against the services as they run: nothing missing, nothing invented."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.support.observability.exported import Families, Family

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "metrics.md"
SERVICES = ("inference", "sandbox", "judge", "reward", "trainer")
#: Names say their unit, as Prometheus's own guide has it.
UNITS = {
    "_seconds": "s",
    "_seconds_total": "s",
    "_bytes": "bytes",
    "_nats": "nats",
}


class Row(NamedTuple):
    """A line of the page's table."""

    name: str
    kind: str
    labels: frozenset[str]
    unit: str
    services: tuple[str, ...]


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"`\w+`", cells[0]) and len(cells) == 6:
            name, kind, labels, unit, services, _ = cells
            found.append(
                Row(
                    name.strip("`"),
                    kind,
                    frozenset(re.findall(r"`(\w+)`", labels)),
                    unit,
                    SERVICES if services == "all" else tuple(services.split(", ")),
                )
            )
    return found


def test_the_page_says_exactly_what_the_services_export(exported: dict[str, Families]) -> None:
    documented: dict[str, Families] = {service: {} for service in SERVICES}
    for row in rows():
        for service in row.services:
            documented[service][row.name] = Family(row.kind, row.labels)
    for service in SERVICES:
        assert documented[service] == exported[service], service


def test_each_metric_stands_there_once_with_its_unit() -> None:
    names = [row.name for row in rows()]
    assert len(names) == len(set(names))
    assert len(names) > 50
    for row in rows():
        for suffix, unit in UNITS.items():
            if row.name.endswith(suffix):
                assert row.unit == unit, row.name


def test_no_other_page_has_a_table_of_metrics() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        if page != PAGE:
            assert not re.search(r"^\| `assay_", page.read_text(), re.MULTILINE), page.name
