"""Fields that Kubernetes refuses to change: an upgrade that changes one fails as a whole.

`python -m tests.support.chart.immutable FOLDER` prints those of a chart for its examples, as JSON:
tests/deploy/chart/immutable.json holds those of the last release.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.support.chart.rendering import Manifest, Rendered, example, merge, render

#: Example files of an installation; the release is `assay`.
INSTALLATIONS: dict[str, tuple[str, ...]] = {
    "default": (),
    "a100": ("values-a100.yaml",),
    "production": ("values-a100.yaml", "values-production.yaml"),
    "kind": ("values-kind-cpu.yaml",),
    "job": ("values-a100.yaml",),
}
_MORE: dict[str, dict[str, Any]] = {
    "job": {"trainer": {"kind": "Job", "run": {"name": "first", "file": {"name": "first"}}}}
}
_FIELDS: dict[str, tuple[str, ...]] = {
    "Deployment": ("selector",),
    "DaemonSet": ("selector",),
    "StatefulSet": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
    "Job": ("selector", "template", "completions", "completionMode", "podFailurePolicy"),
    "JobSet": ("replicatedJobs", "network"),
    "Service": ("clusterIP",),
    "PersistentVolumeClaim": ("accessModes", "storageClassName", "volumeMode"),
}


def values_of(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Return an installation's values, by the examples of the folder or of this chart."""
    return merge(example(*INSTALLATIONS[name], folder=folder), _MORE.get(name, {}))


def immutable(item: Manifest) -> dict[str, Any]:
    """Return an object's fields that no update may change; templates of Jobs by a digest."""
    found = {field: item["spec"].get(field) for field in _FIELDS.get(item["kind"], ())}
    for field in ("template", "replicatedJobs"):
        if field in found:
            text = json.dumps(found[field], sort_keys=True)
            found[field] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def snapshot(rendered: Rendered) -> dict[str, dict[str, Any]]:
    """Return these fields of all objects, by kind and name."""
    return {
        f"{item['kind']}/{item['metadata']['name']}": immutable(item)
        for item in rendered.objects
        if item["kind"] in _FIELDS
    }


def main(folder: str) -> None:
    """Print the fields of every installation of a chart."""
    chart = Path(folder).resolve()
    found = {name: snapshot(render(values_of(name, chart), folder=chart)) for name in INSTALLATIONS}
    sys.stdout.write(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
