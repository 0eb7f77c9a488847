"""The values on the page about network and volumes are accepted, and its tables are true."""

import re
from typing import Any

import pytest
import yaml

from tests.support.chart.kubernetes_schemas import NEWEST, check_object
from tests.support.chart.rendering import ROOT, check, render

PAGE = (ROOT / "docs" / "deploy_network.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
]


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda values: "+".join(values))
def test_each_example_is_valid(values: dict[str, Any]) -> None:
    if "kind" in values:
        assert check_object(values, NEWEST) is None
    else:
        check(render(values), (NEWEST,))


def test_the_table_of_paths_is_the_routes() -> None:
    rows = re.findall(
        r"^\| (trainer|inference|reward) \| (`/.*?) \| ?(.*?) ?\|$", PAGE, re.MULTILINE
    )
    shown = {
        (service, path)
        for service, prefixes, single in rows
        for path in re.findall(r"`(/[^`]*)`", f"{prefixes} {single}")
    }
    hosts = {name: f"{name}.example.com" for name in ("trainer", "inference", "reward")}
    rules = render({"ingress": {"enabled": True, "hosts": hosts}}).one("network/ingress.yaml")
    assert shown == {
        (rule["host"].partition(".")[0], path["path"])
        for rule in rules["spec"]["rules"]
        for path in rule["http"]["paths"]
    }
