"""Upgrades, rollbacks and new secrets: Kubernetes takes each, and no data is left behind.

`immutable.json` has the fields of the last release that no update may change. After a release:
`python -m tests.support.chart.immutable k8s/assay > tests/deploy/chart/immutable.json`.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.chart.immutable import INSTALLATIONS, snapshot, values_of
from tests.support.chart.rendering import CHART, Rendered, at, environment, merge, render

RELEASED = json.loads((Path(__file__).parent / "immutable.json").read_text())
DIGEST = "sha256:" + "1" * 64
#: Claims that a release kept and that these examples make no more, and the values that name them.
NAMED_NOW = {
    "PersistentVolumeClaim/assay-models": at("inference.modelCache.existingClaim", "assay-models")
}
#: What teams change while a release is installed.
CHANGES: dict[str, dict[str, Any]] = {
    "image.tag": at("image.tag", "0.1.1"),
    "image.registry": at("image.registry", "registry.example.com/assay"),
    "image.pullSecrets": at("image.pullSecrets", ["other"]),
    "trainer.image.digest": at("trainer.image.digest", DIGEST),
    "trainer.resources": at("trainer.resources.limits.memory", "200Gi"),
    "trainer.graceS": at("trainer.graceS", 600),
    "trainer.environment": at("trainer.environment", {"ASSAY_LOG_LEVEL": "DEBUG"}),
    "inference.resources": at("inference.resources.requests.cpu", "12"),
    "inference.autoscaling": at("inference.autoscaling.maxReplicas", 6),
    "inference.startupS": at("inference.startupS", 1200),
    "monitoring.traces": at("monitoring.traces.endpoint", "http://collector.monitoring:4318"),
    "redis.external": {
        "redis": {"enabled": False, "external": {"host": "r.example.com", "cidrs": ["10.1.0.9/32"]}}
    },
    "auth.existingSecret": at("auth.existingSecret", "assay-tokens-2"),
    "auth.enabled": at("auth.enabled", False),
    "commonLabels": at("commonLabels", {"cost-center": "rl"}),
    "commonAnnotations": at("commonAnnotations", {"team": "rl"}),
    "networkPolicy": at("networkPolicy.enabled", False),
    "sandbox.isolation": at("sandbox.isolation", "gvisor"),
    "tolerations": at("trainer.tolerations", [{"key": "rl", "operator": "Exists"}]),
}


def clashes(before: Rendered, after: Rendered) -> list[str]:
    """Return the objects that keep their name and change what may not change."""
    old, new = snapshot(before), snapshot(after)
    return [key for key in old if key in new and old[key] != new[key]]


@pytest.mark.parametrize("name", INSTALLATIONS)
def test_the_last_release_can_be_upgraded_to_this_chart_and_back(name: str) -> None:
    ours = snapshot(render(values_of(name)))
    same = [key for key in RELEASED[name] if key in ours]
    assert len(same) > 10
    assert [key for key in same if RELEASED[name][key] != ours[key]] == []


@pytest.mark.parametrize("name", INSTALLATIONS)
def test_no_claim_and_no_stateful_set_of_the_last_release_goes_away(name: str) -> None:
    """Under another name they would begin empty. The docs say how a claim is named from now on."""
    kinds = ("PersistentVolumeClaim/", "StatefulSet/")
    kept = {key for key in RELEASED[name] if key.startswith(kinds)}
    assert kept
    gone = kept - set(snapshot(render(values_of(name))))
    assert gone <= set(NAMED_NOW)
    for key in gone:
        rendered = render(merge(values_of(name), NAMED_NOW[key]))
        claim = f'"claimName": "{key.partition("/")[2]}"'
        assert any(claim in json.dumps(pod) for _, pod in rendered.pods())


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_beside_a_run_changes_no_field_that_may_not_change(change: str) -> None:
    before = render(values_of("job"))
    after = render(merge(values_of("job"), CHANGES[change]))
    assert clashes(before, after) == []
    assert before.by_template != after.by_template, "it changes something"


def test_all_changes_at_once_change_no_field_that_may_not_change() -> None:
    values = values_of("a100")
    before = render(values)
    for change in CHANGES.values():
        values = merge(values, change)
    assert clashes(before, render(values)) == []


def test_a_newer_chart_alone_changes_none_of_it_and_restarts_nothing(tmp_path: Path) -> None:
    newer = tmp_path / "assay"
    shutil.copytree(CHART, newer)
    chart = newer / "Chart.yaml"
    text = chart.read_text()
    chart.write_text(re.sub(r"^version: .*$", "version: 9.9.9", text, flags=re.MULTILINE))
    assert chart.read_text() != text
    for name in ("a100", "job"):
        before, after = render(values_of(name)), render(values_of(name), folder=newer)
        assert clashes(before, after) == []
        assert dict(after.pods()).keys() == dict(before.pods()).keys()
        owners = [item for item in after.objects if item["kind"] != "Pod"]
        assert "assay-9.9.9" in json.dumps(owners), "the label of the chart is on every object"
        for owner, pod in after.pods():
            if not owner.startswith("assay-test"):
                assert pod == dict(before.pods())[owner], f"{owner} would restart"


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        (at("redis.storage.size", "16Gi"), "StatefulSet/assay-redis"),
        (at("redis.storage.storageClass", "fast"), "StatefulSet/assay-redis"),
        (at("trainer.runs.storageClass", "other"), "PersistentVolumeClaim/assay-runs"),
    ],
)
def test_changes_that_kubernetes_refuses_are_known(values: dict[str, Any], refused: str) -> None:
    """docs/deploy_upgrades.md says what to do. A larger claim of runs is an ordinary change."""
    before = values_of("a100")
    assert clashes(render(before), render(merge(before, values))) == [refused]
    larger = merge(before, at("trainer.runs.size", "2Ti"))
    assert clashes(render(before), render(larger)) == []


def test_services_accept_the_tokens_before_and_after_while_they_change() -> None:
    auth = {"auth": {"clients": True, "existingSecret": "assay-tokens-2"}}
    serving = ("engine", "reward", "judge", "sandbox", "trainer")
    pods = dict(render(auth).pods())
    for name in serving:
        found = environment(pods[f"assay-{name}"])["ASSAY_CLIENT_TOKENS"]
        assert found == {"secretKeyRef": {"name": "assay-tokens-2", "key": "clients"}}, name


def holders_of(rendered: Rendered, secret: str) -> set[str]:
    """Return the owners of pods with a variable or a volume of the secret, but for tests."""
    forms = (rf'"secretKeyRef": \{{[^}}]*"name": "{secret}"', rf'"secretName": "{secret}"')
    found = {
        name
        for name, pod in rendered.pods()
        if any(re.search(form, json.dumps(pod)) for form in forms)
    }
    return {name for name in found if not name.startswith("assay-test")}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("auth.existingSecret", "assay-tokens", "assay-tokens-2"),
        ("redis.existingSecret", "assay-redis", "assay-redis-2"),
    ],
)
def test_a_new_secret_restarts_those_who_hold_it_and_nobody_else(
    path: str, old: str, new: str
) -> None:
    before, after = render(), render(at(path, new))
    holders = holders_of(before, old)
    assert holders
    assert holders_of(after, new) == holders
    assert holders_of(after, old) == set()
    pods = dict(before.pods())
    changed = {name for name, pod in after.pods() if pods.get(name) != pod}
    assert {name for name in changed if not name.startswith("assay-test")} == holders


def test_uninstall_keeps_runs_and_models() -> None:
    claims = render().of_kind("PersistentVolumeClaim")
    assert {claim["metadata"]["name"] for claim in claims} == {"assay-runs", "assay-models"}
    for claim in claims:
        assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_a_change_of_a_selector_is_seen() -> None:
    """The comparison can fail: else it would show nothing."""
    changed = render()
    deployment = changed.of_kind("Deployment")[0]
    deployment["spec"]["selector"]["matchLabels"]["more"] = "x"
    assert clashes(render(), changed) == [f"Deployment/{deployment['metadata']['name']}"]
