"""Twelve rules of companies' admission: kept as shipped, or by a value that the docs name."""

import re
from typing import Any

import pytest

from tests.support.chart.admission import RULES, breaches
from tests.support.chart.rendering import (
    EIGHT_VERSIONS,
    ROOT,
    check,
    example,
    merge,
    render,
)

PRODUCTION = ("values-a100.yaml", "values-production.yaml")
OURS = ("inference", "sandbox", "judge", "reward", "trainer", "worker")
#: The user's own, of images that are built.
DIGESTS = {name: {"image": {"digest": "sha256:" + "1" * 64}} for name in OURS}
#: Broken by the production example as shipped.
BY_VALUES = {
    *("a label of cost", "digests of images", "a limit of processors", "an architecture"),
    *("a request of ephemeral storage", "nothing of the node mounted", "not root"),
}


def strict(*below: str) -> dict[str, Any]:
    return merge(example(*below, "values-strict.yaml"), DIGESTS)


def test_the_production_example_keeps_five_rules_as_shipped() -> None:
    found = breaches(render(example(*PRODUCTION)))
    assert {name for name, owners in found.items() if owners} == BY_VALUES
    installer = [owners for name, owners in found.items() if name in ("not root",)]
    assert installer == [["assay-seccomp"]]
    assert found["nothing of the node mounted"] == ["assay-seccomp"]


@pytest.mark.parametrize("below", [PRODUCTION, ("values-a100.yaml",)], ids=len)
def test_with_the_strict_example_every_pod_keeps_all_twelve(below: tuple[str, ...]) -> None:
    values = strict(*below)
    if "values-production.yaml" not in below:
        values = merge(values, {"image": {"pullSecrets": ["registry"]}, "redis": {"image": REDIS}})
    rendered = render(values)
    assert len(list(rendered.pods())) >= 12
    assert {name: owners for name, owners in breaches(rendered).items() if owners} == {}
    check(rendered, EIGHT_VERSIONS)


REDIS = "redis@sha256:" + "2" * 64


def test_a_run_as_a_job_keeps_all_twelve() -> None:
    run = {"trainer": {"kind": "Job", "run": {"name": "first", "file": {"name": "first"}}}}
    run |= {"ingress": {"hosts": {"trainer": ""}}}
    found = breaches(render(merge(strict(*PRODUCTION), run)))
    assert {name: owners for name, owners in found.items() if owners} == {}


def test_the_page_has_the_rules_with_their_counts() -> None:
    page = (ROOT / "docs" / "deploy_platforms.md").read_text()
    table = page.partition("| rule | ")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| ([^|]+?) \| (\d+) of 13 \|", table, re.MULTILINE))
    found = breaches(render(example(*PRODUCTION)))
    assert rows == {name: str(len(owners)) for name, owners in found.items()}
    assert len(RULES) == 12
