"""Dashboards and alerts ask only for metrics and labels exported by the real services."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.observability.exported import Families
from tests.support.observability.promql import ITS_OWN, uses

ROOT = Path(__file__).parents[3]
DASHBOARDS = sorted((ROOT / "k8s" / "assay" / "files" / "dashboards").glob("*.json"))
RULES = sorted((ROOT / "k8s" / "assay" / "files" / "rules").glob("*.yml"))
GRID_WIDTH = 24
#: Grafana fills these in before Prometheus sees an expression.
FILLED_IN = {
    **{"$__rate_interval": "1m", "$run": "all", "$rubric": "all"},
    **{"$namespace": "all", "$release": "all"},
}
SCOPE = {"namespace", "release"}
LEGEND = re.compile(r"\{\{(\w+)\}\}")


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]


def filled(expression: str) -> str:
    for name, value in FILLED_IN.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression with its place."""
    for path in DASHBOARDS:
        for panel in panels(path):
            for target in panel["targets"]:
                yield f"{path.stem}/{panel['title']}/{target['refId']}", filled(target["expr"])
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield rule["alert"], rule["expr"]


EXPRESSIONS = dict(expressions())


def known_labels(exported: dict[str, Families], name: str) -> frozenset[str] | None:
    """Return the labels of a metric exported by some service; else None."""
    if name == "up":
        return ITS_OWN
    for families in exported.values():
        if name in families and families[name].kind != "histogram":
            return families[name].labels | ITS_OWN
        base, _, part = name.rpartition("_")
        if part in ("bucket", "sum", "count") and base in families:
            assert families[base].kind == "histogram", name
            return families[base].labels | ITS_OWN | ({"le"} if part == "bucket" else set())
    return None


def test_there_is_a_dashboard_for_each_of_what_can_go_wrong() -> None:
    names = {path.stem for path in DASHBOARDS}
    assert names == {*("mesh", "rollouts", "reward", "judge", "executor", "sandbox", "inference")}
    assert len(EXPRESSIONS) > 100


@pytest.mark.parametrize("place", EXPRESSIONS)
def test_every_expression_asks_for_what_is_exported(
    exported: dict[str, Families], place: str
) -> None:
    asked = uses(EXPRESSIONS[place])
    assert asked, "an expression without a metric"
    for used in asked:
        labels = known_labels(exported, used.name)
        assert labels is not None, f"no service exports {used.name}"
        assert used.labels <= labels, f"{used.name} has no label {set(used.labels - labels)}"


def test_the_check_itself_finds_what_is_wrong(exported: dict[str, Families]) -> None:
    (wrong,) = uses("sum by (colour) (rate(assay_http_requests_total[1m]))")
    labels = known_labels(exported, wrong.name)
    assert labels is not None
    assert not wrong.labels <= labels
    assert known_labels(exported, "assay_http_requests") is None
    assert known_labels(exported, "assay_http_request_seconds") is None, "a histogram has parts"
    with pytest.raises(ValueError, match="."):
        uses("sum(rate(")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_legends_name_labels_that_the_lines_have(exported: dict[str, Families], path: Path) -> None:
    for panel in panels(path):
        for target in panel["targets"]:
            known = [known_labels(exported, one.name) for one in uses(filled(target["expr"]))]
            shown = set(LEGEND.findall(target["legendFormat"]))
            assert any(labels and shown <= labels for labels in known), panel["title"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_their_own_ids_and_places(path: Path) -> None:
    board = json.loads(path.read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= GRID_WIDTH, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, f"{panel['title']} lies over another"
        taken |= cells


def test_variables_are_labels_of_their_metrics(exported: dict[str, Families]) -> None:
    num_seen = 0
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                form = r"label_values\((\w+)(?:\{.*\})?, (\w+)\)"
                found = re.fullmatch(form, variable["definition"])
                assert found is not None
                assert found[2] in (known_labels(exported, found[1]) or ()), path.stem
                num_seen += 1
    assert num_seen == 2 + len(SCOPE) * len(DASHBOARDS)


@pytest.mark.parametrize("place", EXPRESSIONS)
def test_every_expression_is_about_one_release(place: str) -> None:
    is_alert = place.startswith("Assay")
    for used in uses(EXPRESSIONS[place]):
        assert used.labels & SCOPE == ({"release"} if is_alert else SCOPE), used


def test_the_files_are_what_their_sources_say(tmp_path: Path) -> None:
    """python deploy/grafana/panels.py k8s/assay/files/dashboards"""
    script = ROOT / "deploy" / "grafana" / "panels.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=60)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.json")}
    assert made == {path.name: path.read_text() for path in DASHBOARDS}


def test_compose_scrapes_every_service_by_its_usual_port() -> None:
    from assay_shared.local.listeners import USUAL_PORTS

    config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    targets = {
        job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]
    }
    usual = {f"assay-{name}": [f"{name}:{port}"] for name, port in USUAL_PORTS.items()}
    # Reward listens in the network of the mesh alone, and has a name for that.
    assert targets == usual | {"assay-reward": [f"reward.mesh:{USUAL_PORTS['reward']}"]}


def test_alerts_say_how_bad_it_is_and_where_to_read_on() -> None:
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
                assert set(rule["annotations"]) == {"summary", "description", "runbook"}


def test_every_alert_is_documented() -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    documented = re.findall(r"^\| `(Assay\w+)` \|", page, re.MULTILINE)
    alerts = [
        rule["alert"]
        for path in RULES
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    assert documented == alerts


def test_every_alert_leads_to_a_section_of_the_runbook() -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                page, _, anchor = rule["annotations"]["runbook"].partition("#")
                assert page == "docs/runbook.md"
                assert anchor in anchors, rule["alert"]
