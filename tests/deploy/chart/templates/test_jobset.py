"""A run on several nodes: a JobSet that torchrun joins."""

import shlex
import subprocess
from pathlib import Path

import pytest
from torch.distributed.run import config_from_args, get_args_parser

from tests.deploy.chart.templates.test_trainer import JOB, job
from tests.support.chart.rendering import (
    NAMESPACE,
    Manifest,
    Values,
    at,
    container,
    environment,
    merge,
    render,
)

NODES: Values = merge(JOB, {"trainer": {"nodes": 3, "gpus": 8}})

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "trainer/jobset.yaml": [
        {},
        JOB,
        merge(JOB, at("trainer.nodes", 1)),
        merge(NODES, at("trainer.enabled", False)),
    ],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


def jobset(values: Values = NODES) -> Manifest:
    return render(values).one("trainer/jobset.yaml")


def nodes(values: Values = NODES) -> Manifest:
    """Return the one Job of the set."""
    (replicated,) = jobset(values)["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["replicas"]) == ("node", 1)
    found: Manifest = replicated["template"]["spec"]
    return found


def start(tmp_path: Path, pod: Manifest, program: str, node: int = 0) -> list[str]:
    """Run the pod's own script; return the arguments of its last program."""
    said = tmp_path / program
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    said.chmod(0o755)
    return subprocess.run(
        container(pod)["command"],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "RUN_FOLDER": str(tmp_path / "run"),
            "JOB_COMPLETION_INDEX": str(node),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout.splitlines()


def test_each_node_is_a_pod_with_its_gpus_and_a_number() -> None:
    spec = nodes()
    assert (spec["completions"], spec["parallelism"]) == (3, 3)
    assert spec["completionMode"] == "Indexed"
    assert container(spec["template"])["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert render(NODES).by_template["trainer/job.yaml"] == []


def test_a_node_is_the_pod_of_a_run_on_one_node_but_for_its_command() -> None:
    alone, one = job(merge(JOB, at("trainer.gpus", 8))), nodes()["template"]
    del container(alone)["command"], container(one)["command"]
    assert one == alone
    assert environment(one)["RUN_FOLDER"].startswith("/var/lib/assay/runs/first-")


@pytest.mark.parametrize("node", [0, 2])
def test_torchrun_understands_the_command_of_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # else torchrun sets it for this process
    found = start(tmp_path, nodes()["template"], "torchrun", node)
    given = get_args_parser().parse_args(found)
    config, command, arguments = config_from_args(given)
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (3, 3, 8)
    assert (config.rdzv_backend, config.rdzv_configs["rank"]) == ("static", node)
    assert config.rdzv_configs["timeout"] == "1800"
    assert config.max_restarts == 0, "the JobSet restarts all nodes together"
    assert config.shutdown_timeout == 165, "less than the pod's grace of 180 s"
    folder = tmp_path / "run"
    assert shlex.join([str(command), *arguments]) == (
        f"assay train /etc/assay/run.yaml --folder {folder} --quiet"
    )
    folder.mkdir()
    (folder / "config.json").touch()
    again = start(tmp_path, nodes()["template"], "torchrun", node)
    assert again[-4:] == ["train", "--resume", str(folder), "--quiet"]


def test_the_nodes_meet_at_the_first_pods_name(tmp_path: Path) -> None:
    """JobSet names a pod SET-JOB-NUMBER-INDEX, in the headless service that `subdomain` names."""
    found = jobset()
    name, network = found["metadata"]["name"], found["spec"]["network"]
    assert found["metadata"]["namespace"] == NAMESPACE
    assert network["enableDNSHostnames"] is True
    assert network["publishNotReadyAddresses"] is True
    endpoint = f"{name}-{found['spec']['replicatedJobs'][0]['name']}-0-0.{network['subdomain']}"
    given = get_args_parser().parse_args(start(tmp_path, nodes()["template"], "torchrun"))
    assert given.rdzv_endpoint == f"{endpoint}:29500"


def test_one_failure_starts_all_nodes_again() -> None:
    spec, policy = nodes(), jobset()["spec"]["failurePolicy"]
    assert spec["backoffLimit"] == 0, "a pod that is started again alone cannot rejoin"
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert policy["maxRestarts"] == 20
    assert policy["restartStrategy"] == "BlockingRecreate", "never two at once on one folder"
    # A drained node fails the Job for the reason PodFailurePolicy, which costs no restart.
    (drained,) = spec["podFailurePolicy"]["rules"]
    assert drained["action"] == "FailJob"
    assert drained["onPodConditions"][0]["type"] == "DisruptionTarget"
    (rule,) = policy["rules"]
    assert rule["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]


def test_without_gpus_a_node_has_one_process(tmp_path: Path) -> None:
    pod = nodes(merge(JOB, {"trainer": {"nodes": 2, "accelerator": "none"}}))["template"]
    given = get_args_parser().parse_args(start(tmp_path, pod, "torchrun"))
    assert (given.nnodes, given.nproc_per_node) == ("2", "1")
    assert "nvidia.com/gpu" not in container(pod)["resources"]["limits"]


def test_one_node_with_several_gpus_names_them(tmp_path: Path) -> None:
    pod = job(merge(JOB, at("trainer.gpus", 4)))
    assert start(tmp_path, pod, "assay")[-3:] == ["--quiet", "--gpus", "0,1,2,3"]
    assert container(pod)["resources"]["limits"]["nvidia.com/gpu"] == "4"


def test_the_notes_say_how_to_follow_it_and_what_a_change_does() -> None:
    notes, name = render(NODES).notes, jobset()["metadata"]["name"]
    assert f"jobset-name={name},batch.kubernetes.io/job-completion-index=0" in notes
    assert "another JobSet takes the old one's place" in notes
