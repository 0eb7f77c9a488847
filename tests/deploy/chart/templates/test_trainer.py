"""The trainer, as the service or as a single run."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_trainer.config import RunConfig
from assay_trainer.pipelines.pipeline_config import load_pipeline
from assay_trainer.pipelines.runner import Pipeline
from tests.support.chart.rendering import (
    ROOT,
    Manifest,
    Values,
    at,
    container,
    environment,
    render,
)

RUN = yaml.safe_load((ROOT / "configs" / "small.yaml").read_text())
JOB: Values = {"trainer": {"kind": "Job", "run": {"name": "first", "file": RUN}}}
OFF = at("trainer.enabled", False)

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "trainer/statefulset.yaml": [OFF, JOB],
    "trainer/service.yaml": [OFF, JOB],
    "trainer/job.yaml": [OFF, {}],
    "trainer/configmap.yaml": [OFF, {}],
    "trainer/serviceaccount.yaml": [OFF],
    "trainer/runs-claim.yaml": [OFF, at("trainer.runs.existingClaim", "mine")],
    "trainer/pdb.yaml": [
        {},
        {"trainer": {"enabled": False, "podDisruptionBudget": {"enabled": True}}},
    ],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


def service(values: Values) -> Manifest:
    pod: Manifest = render(values).one("trainer/statefulset.yaml")["spec"]["template"]
    return pod


def job(values: Values) -> Manifest:
    pod: Manifest = render(values).one("trainer/job.yaml")["spec"]["template"]
    return pod


def test_there_is_one_trainer_of_the_runs() -> None:
    rendered = render()
    assert rendered.one("trainer/statefulset.yaml")["spec"]["replicas"] == 1
    selector = rendered.one("trainer/service.yaml")["spec"]["selector"]
    assert selector.items() <= service({})["metadata"]["labels"].items()
    assert container(service({}))["args"][:3] == ["assay", "trainer", "serve"]


@pytest.mark.parametrize("pod", [service({}), job(JOB)], ids=["StatefulSet", "Job"])
def test_it_has_a_gpu_its_runs_and_those_it_calls(pod: Manifest) -> None:
    assert container(pod)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    mounts = {mount["mountPath"]: mount for mount in container(pod)["volumeMounts"]}
    assert mounts["/var/lib/assay/runs"]["readOnly"] is False
    assert mounts["/var/lib/assay/models"]["readOnly"] is True
    assert environment(pod)["ASSAY_RUNS"] == "/var/lib/assay/runs"
    assert environment(pod)["ASSAY_INFERENCE_URL"] == "http://assay-inference:8001"
    assert environment(pod)["ASSAY_REWARD_URL"] == "http://assay-reward:8004"
    assert "ASSAY_SANDBOX_URL" not in environment(pod)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 180


def test_a_configmap_holds_a_run_file_that_loads() -> None:
    text = render(JOB).one("trainer/configmap.yaml")["data"]["run.yaml"]
    assert RunConfig.model_validate(yaml.safe_load(text)).name == "small"


def test_a_job_that_is_interrupted_is_started_again() -> None:
    spec = render(JOB).one("trainer/job.yaml")["spec"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["backoffLimit"] == 20
    assert spec["podReplacementPolicy"] == "Failed", "never two at once on one folder"
    assert spec["podFailurePolicy"]["rules"][0]["action"] == "Ignore"


def test_a_job_begins_a_run_and_goes_on_with_one(tmp_path: Path) -> None:
    """Run the pod's own script, with a program in place of `assay` to print its arguments."""
    said = tmp_path / "assay"
    said.write_text('#!/bin/sh\necho "$@"\n')
    said.chmod(0o755)
    folder = tmp_path / "run"

    def start() -> str:
        return subprocess.run(
            container(job(JOB))["command"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "RUN_FOLDER": str(folder)},
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        ).stdout.strip()

    assert start() == f"train /etc/assay/run.yaml --folder {folder} --quiet"
    folder.mkdir()
    (folder / "config.json").touch()
    assert start() == f"train --resume {folder} --quiet"


PIPELINE: dict[str, Any] = {
    "name": "first",
    "stages": {
        "sft": {"kind": "train", "run": "sft.yaml"},
        "e": {"kind": "evaluate", "policy": "stage:sft", "sets": {"a": "{stage:sft}/a.jsonl"}},
    },
}
PIPELINE_JOB: Values = {
    "trainer": {
        "kind": "Job",
        "run": {
            "name": "first",
            "pipeline": yaml.safe_dump(PIPELINE, sort_keys=False),
            "files": {"sft.yaml": RUN},
        },
    }
}


def test_a_job_runs_a_pipeline_whose_files_lie_next_to_it(tmp_path: Path) -> None:
    """The same command begins it and continues it; the file is the one of `assay pipeline run`."""
    found = render(PIPELINE_JOB).one("trainer/configmap.yaml")["data"]
    assert set(found) == {"pipeline.yaml", "sft.yaml"}
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    config = load_pipeline(tmp_path / "pipeline.yaml", ())
    pipeline = Pipeline.open(tmp_path / "runs", tmp_path / "pipeline.yaml", config)
    assert list(pipeline.stages) == ["sft", "e"]
    script = container(job(PIPELINE_JOB))["command"][-1]
    expected = 'exec assay pipeline run /etc/assay/pipeline.yaml --folder "$RUN_FOLDER"'
    assert script.strip() == expected


def test_a_direct_transfer_is_met_at_the_pods_own_address() -> None:
    assert "ASSAY_WEIGHT_TRANSFER_HOST" not in environment(service({}))
    found = environment(service(at("trainer.weightTransfer", "direct")))
    assert found["ASSAY_WEIGHT_TRANSFER"] == "direct"
    assert found["ASSAY_WEIGHT_TRANSFER_HOST"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_datasets_are_read_only() -> None:
    pod = service(at("trainer.datasets.existingClaim", "data"))
    mounts = {mount["mountPath"]: mount for mount in container(pod)["volumeMounts"]}
    assert mounts["/var/lib/assay/data"]["readOnly"] is True
    assert environment(pod)["ASSAY_DATA"] == "/var/lib/assay/data"


def test_runs_claim_stays_when_the_release_goes() -> None:
    claim = render(at("trainer.runs.size", "2Ti")).one("trainer/runs-claim.yaml")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Ti"


def test_a_budget_keeps_nodes_from_taking_the_trainer() -> None:
    rendered = render(at("trainer.podDisruptionBudget.enabled", True))
    assert rendered.one("trainer/pdb.yaml")["spec"]["maxUnavailable"] == 0


def test_an_account_is_its_own() -> None:
    account = render().one("trainer/serviceaccount.yaml")
    assert account["metadata"]["name"] == service({})["spec"]["serviceAccountName"]
