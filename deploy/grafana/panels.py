"""Dashboards for Grafana: from the files in dashboards/ to Grafana's JSON.

python deploy/grafana/panels.py FOLDER
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from assay_shared.settings.run_file import Config, load_config

Json = dict[str, Any]
#: Grafana's grid is so wide; a panel's height is in its own units.
GRID_WIDTH, HEIGHT = 24, 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: Grafana's names of units, by ours.
UNITS = {
    "": "short",
    "s": "s",
    "bytes": "bytes",
    "share": "percentunit",
    "per second": "cps",
    "up": "bool_on_off",
}

#: A metric of ours in an expression, with the brace of its matchers.
_METRIC = re.compile(r"\b(?:(?:assay|process)_\w+|up)\b({)?")
#: By what every dashboard chooses a release; Compose's series have neither label.
_SCOPE = {"namespace": "assay_service_info", "release": "assay_service_info"}
_MATCHERS = ", ".join(f'{label}=~"${label}"' for label in _SCOPE)


Kind = Literal["timeseries", "stat", "table", "bargauge"]


class Panel(Config):
    """A graph, or a panel of another kind. `width` is in columns of 24.

    `queries` are PromQL by the names of their lines, with labels in {{braces}}. `thresholds` are
    values from which a number is yellow, and red; they fall if more is better.
    """

    title: str
    text: str = ""
    unit: Literal["", "s", "bytes", "share", "per second", "up"] = ""
    kind: Kind = "timeseries"
    width: int = Field(default=8, gt=0, le=GRID_WIDTH)
    stacked: bool = False
    thresholds: tuple[float, ...] = ()
    queries: dict[str, str] = Field(min_length=1)


class Row(Config):
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(Config):
    """A page. `variables` are labels to choose by, each with a metric to take its values from."""

    uid: str
    title: str
    text: str
    variables: dict[str, str] = Field(default={})
    rows: tuple[Row, ...]


def to_json(dashboard: Dashboard) -> Json:
    """Return a dashboard as Grafana loads it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": ["assay"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_source_variable(), *_variables(dashboard)]},
        "annotations": {"list": []},
        "links": [_link()],
        "panels": _placed(dashboard.rows),
    }


def scoped(expression: str) -> str:
    """Return the expression with every metric limited to the chosen namespace and release."""

    def limit(found: re.Match[str]) -> str:
        return f"{found[0]}{_MATCHERS}, " if found[1] else f"{found[0]}{{{_MATCHERS}}}"

    return _METRIC.sub(limit, expression)


def _source_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _variables(dashboard: Dashboard) -> list[Json]:
    return [
        {
            "name": label,
            "label": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": f"label_values({asked}, {label})", "refId": label},
            "definition": f"label_values({asked}, {label})",
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
            "sort": 1,
        }
        for label, asked in [
            *_SCOPE.items(),
            *((label, scoped(metric)) for label, metric in dashboard.variables.items()),
        ]
    ]


def _link() -> Json:
    return {
        "title": "Assay",
        "type": "dashboards",
        "tags": ["assay"],
        "asDropdown": True,
        "keepTime": True,
    }


def _placed(rows: tuple[Row, ...]) -> list[Json]:
    """Panels from left to right, rows from top to bottom; ids are places too."""
    placed: list[Json] = []
    y = 0
    for row in rows:
        placed.append(
            {
                "id": len(placed) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": GRID_WIDTH, "h": 1},
                "panels": [],
            }
        )
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > GRID_WIDTH:
                x, y = 0, y + HEIGHT
            place = {"x": x, "y": y, "w": panel.width, "h": HEIGHT}
            placed.append(_panel(panel, len(placed) + 1, place))
            x += panel.width
        y += HEIGHT
    return placed


def _panel(panel: Panel, number: int, place: Json) -> Json:
    instant = panel.kind != "timeseries"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": scoped(expression),
                "legendFormat": legend or "__auto",
                "instant": instant,
                "range": not instant,
                "format": "table" if panel.kind == "table" else "time_series",
            }
            for index, (legend, expression) in enumerate(panel.queries.items())
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }


def _defaults(panel: Panel) -> Json:
    defaults: Json = {
        "unit": UNITS[panel.unit],
        "thresholds": _thresholds(panel),
        "noValue": "none",
    }
    if panel.thresholds:
        defaults["color"] = {"mode": "thresholds"}
    if panel.kind == "timeseries":
        defaults["color"] = {"mode": "palette-classic"}
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 5,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
        if panel.unit == "share":
            defaults |= {"min": 0, "max": 1}
        else:
            defaults["custom"]["axisSoftMin"] = 0
    return defaults


def _thresholds(panel: Panel) -> Json:
    first, *colours = "green", "yellow", "red"
    if list(panel.thresholds) != sorted(panel.thresholds):
        # The more, the better: Grafana wants its steps to rise.
        first, *colours = "red", "yellow", "green"
    steps: list[Json] = [{"color": first, "value": None}]
    values = sorted(panel.thresholds)
    if len(values) == 1:
        colours = colours[1:]
    steps += [{"color": c, "value": v} for c, v in zip(colours, values, strict=False)]
    return {"mode": "absolute", "steps": steps}


def _options(panel: Panel) -> Json:
    reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "stat":
        return {"reduceOptions": reduce, "colorMode": "background", "textMode": "value_and_name"}
    if panel.kind == "bargauge":
        return {"reduceOptions": reduce, "orientation": "horizontal", "displayMode": "basic"}
    if panel.kind == "table":
        return {"showHeader": True}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def write(folder: Path) -> None:
    """Write a JSON file for each dashboard."""
    for path in sorted((Path(__file__).parent / "dashboards").glob("*.yaml")):
        dashboard = load_config(Dashboard, path)
        text = json.dumps(to_json(dashboard), indent=1) + "\n"
        (folder / f"{path.stem}.json").write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
