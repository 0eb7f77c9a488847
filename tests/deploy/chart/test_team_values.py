"""Settings of platform teams: each renders, shows, and is valid in eight Kubernetes versions.

The settings are in team_values/*.yaml. Those that the chart refuses on purpose say why.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.support.chart.rendering import (
    EIGHT_VERSIONS,
    Manifest,
    Rendered,
    check,
    merge,
    render,
    without,
)

Probe = dict[str, Any]
FILES = sorted((Path(__file__).parent / "team_values").glob("*.yaml"))
PROBES: list[Probe] = [probe for file in FILES for probe in yaml.safe_load(file.read_text())]
ACCEPTED = [probe for probe in PROBES if "refused" not in probe]
REFUSED = [probe for probe in PROBES if "refused" in probe]
PLAIN = render()
#: Lists of a pod in which the API server merges by a key: a key twice is an error of Helm 4.
MERGE_KEYS = {"env": "name", "volumes": "name", "volumeMounts": "mountPath", "ports": "name"}


def holds(found: object, wanted: object) -> bool:
    """Return whether `found` has all of `wanted`; lists may hold more, in any order."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and holds(found[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and all(any(holds(f, w) for f in found) for w in wanted)
    return found == wanted


def shows(rendered: Rendered, part: Manifest) -> bool:
    return any(holds(item, part) for item in rendered.objects)


def ours(rendered: Rendered, probe: Probe) -> Rendered:
    """Leave out the team's own objects: their schemas are with their operators."""
    theirs = {item["kind"] for item in probe["values"].get("extraObjects", ())}
    return without(rendered, theirs)


@pytest.mark.parametrize("probe", ACCEPTED, ids=lambda probe: probe["name"])
def test_a_setting_renders_and_is_valid_in_eight_versions(probe: Probe) -> None:
    rendered = render(probe["values"], name=probe.get("release", "assay"))
    check(ours(rendered, probe), EIGHT_VERSIONS)
    for part in probe["shows"]:
        assert shows(rendered, part), part
        assert all(len(item["metadata"]["name"]) <= 63 for item in rendered.objects)
    assert list(repeated(rendered)) == []


def repeated(rendered: Rendered) -> Iterator[tuple[str, str, str]]:
    """Yield every key that a list of a pod has twice: owner, list, key."""
    for name, pod in rendered.pods():
        spec = pod["spec"]
        holders = [spec, *spec["containers"], *spec.get("initContainers", ())]
        for holder in holders:
            for field, key in MERGE_KEYS.items():
                counts = Counter(item[key] for item in holder.get(field, ()))
                yield from ((name, field, one) for one, count in counts.items() if count > 1)


@pytest.mark.parametrize("probe", ACCEPTED, ids=lambda probe: probe["name"])
def test_a_setting_is_what_makes_it_show(probe: Probe) -> None:
    """Without the setting, at least one part of what it shows is not there."""
    assert not all(shows(PLAIN, part) for part in probe["shows"])


@pytest.mark.parametrize("probe", REFUSED, ids=lambda probe: probe["name"])
def test_what_is_refused_says_why(probe: Probe) -> None:
    assert probe["because"].strip()
    with pytest.raises((helm_python.HelmValuesError, helm_python.HelmRenderError)) as caught:
        render(probe["values"])
    assert probe["refused"] in str(caught.value)


def test_nearly_all_that_teams_write_is_taken() -> None:
    """At least 48 of 51 ordinary settings: the share is held as their number grows."""
    assert len({probe["name"] for probe in PROBES}) == len(PROBES) >= 51
    assert len(ACCEPTED) / len(PROBES) >= 48 / 51


def test_the_whole_of_two_teams_settings_go_together() -> None:
    """Every accepted setting of accounts and pods at once: none stands in another's way."""
    names = ("accounts.yaml", "placement.yaml", "pods.yaml")
    all_values: dict[str, Any] = {}
    for file in FILES:
        if file.name in names:
            for probe in yaml.safe_load(file.read_text()):
                if "refused" not in probe:
                    all_values = merge(all_values, probe["values"])
    all_values.pop("extraObjects")
    rendered = render(all_values)
    check(rendered, EIGHT_VERSIONS[-1:])
    assert list(repeated(rendered)) == []


def test_a_part_that_is_missing_is_seen() -> None:
    """The comparison can fail: else every setting would show."""
    part = {"kind": "Service", "metadata": {"labels": {"app.kubernetes.io/component": "judge"}}}
    assert shows(render(), part)
    assert not shows(render(), json.loads(json.dumps(part).replace("judge", "jury")))
    assert not holds({"a": [1, 2]}, {"a": [3]})
