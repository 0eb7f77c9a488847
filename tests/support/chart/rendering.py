"""The chart as Helm's own engine renders it."""

import functools
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import helm_python
import yaml

from tests.support.chart.crds import CRD_SCHEMAS, check_crd, jobs_of
from tests.support.chart.kubernetes_schemas import NEWEST, check_object

ROOT = Path(__file__).parents[3]
CHART = ROOT / "k8s" / "assay"
EXAMPLES = ("values-a100.yaml", "values-kind-cpu.yaml", "values-production.yaml")
NAME, NAMESPACE = "assay", "mesh"
#: The oldest that Chart.yaml allows, and the newest that there are schemas of.
VERSIONS = ("1.30.0", NEWEST)
#: All that the chart may be installed on.
EIGHT_VERSIONS = tuple(f"1.{minor}.0" for minor in range(30, 38))

Values = Mapping[str, Any]
Manifest = dict[str, Any]
#: What holds pods, and where.
_POD_PATHS: dict[str, tuple[str | int, ...]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "JobSet": ("spec", "replicatedJobs", 0, "template", "spec", "template"),
}


class Rendered(NamedTuple):
    """All objects, by template: its path below templates/."""

    by_template: dict[str, list[Manifest]]
    notes: str

    @property
    def objects(self) -> list[Manifest]:
        return [item for items in self.by_template.values() for item in items]

    def one(self, template: str) -> Manifest:
        """Return the single object of a template."""
        (found,) = self.by_template[template]
        return found

    def of_kind(self, kind: str) -> list[Manifest]:
        return [item for item in self.objects if item["kind"] == kind]

    def pods(self) -> Iterator[tuple[str, Manifest]]:
        """Yield every pod or pod template, with the name of its owner."""
        for item in self.objects:
            if item["kind"] in _POD_PATHS:
                pod: Any = item
                for key in _POD_PATHS[item["kind"]]:
                    pod = pod[key]
                yield item["metadata"]["name"], pod


@functools.cache
def chart(folder: Path = CHART) -> helm_python.Chart:
    helm_python.disable_logging()  # it tells of every link that it follows
    return helm_python.Chart.load(folder)


def render(
    values: Values | None = None,
    *,
    folder: Path = CHART,
    name: str = NAME,
    namespace: str = NAMESPACE,
) -> Rendered:
    """Render the chart. Raises HelmValuesError and HelmRenderError if it refuses."""
    text = _rendered(json.dumps(values or {}, sort_keys=True), folder, name, namespace)
    return Rendered(*json.loads(text))  # parsed each time: the caller may change it


@functools.cache
def _rendered(values: str, folder: Path, name: str, namespace: str) -> str:
    files = chart(folder).render(json.loads(values), name=name, namespace=namespace)
    by_template, notes = {}, ""
    for path, text in files.items():
        template = path.partition("/templates/")[2]
        if template == "NOTES.txt":
            notes = text
        else:
            items = yaml.load_all(text, yaml.CSafeLoader)
            by_template[template] = [item for item in items if item]
    return json.dumps([by_template, notes])


def without(rendered: Rendered, kinds: Collection[str]) -> Rendered:
    """Return the objects of other kinds."""
    kept = {
        path: [item for item in items if item["kind"] not in kinds]
        for path, items in rendered.by_template.items()
    }
    return Rendered(kept, rendered.notes)


def example(*names: str, folder: Path | None = None) -> dict[str, Any]:
    """Return the values of the example files, later files over earlier files."""
    merged: dict[str, Any] = {}
    for name in names:
        merged = merge(merged, yaml.safe_load(((folder or CHART) / name).read_text()))
    return merged


def merge(below: Values, above: Values) -> dict[str, Any]:
    """Lay a values file over another as Helm does."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = merge(old, value) if both and old is not None else value
    return merged


def at(path: str, value: object) -> dict[str, Any]:
    """Return values with a dotted path set."""
    first, _, rest = path.partition(".")
    return {first: at(rest, value) if rest else value}


def check(rendered: Rendered, versions: tuple[str, ...] = VERSIONS) -> None:
    """Check every object strictly against the schema of its kind; name the wrong object."""
    assert rendered.objects
    for item in rendered.objects:
        text = json.dumps(item, sort_keys=True)
        for version in versions:
            problem = _problem(text, version)
            assert problem is None, f"{item['kind']} {item['metadata']['name']}: {problem}"


@functools.cache
def _problem(text: str, version: str) -> str | None:
    item = json.loads(text)
    if (item["apiVersion"], item["kind"]) in CRD_SCHEMAS:
        inner = (check_object(job, version) for job in jobs_of(item))
        return check_crd(item) or next(filter(None, inner), None)
    return check_object(item, version)


def container(pod: Manifest, index: int = 0) -> Manifest:
    found: Manifest = pod["spec"]["containers"][index]
    return found


def environment(pod: Manifest) -> dict[str, Any]:
    """Return the variables of the first container: a value, or its source."""
    return {
        item["name"]: item.get("value", item.get("valueFrom"))
        for item in container(pod).get("env", [])
    }
