"""A run's Job from version to version: what cannot be changed makes another one."""

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.runs.run_folder import RunStatus
from assay_trainer.config import RunConfig
from assay_trainer.service.record import create_run
from tests.conftest import wait_until
from tests.deploy.chart.templates.test_trainer import JOB
from tests.support.chart.rendering import (
    CHART,
    ROOT,
    Manifest,
    Values,
    at,
    container,
    environment,
    merge,
    render,
)
from tests.support.valkey import TestValkey

RUN = yaml.safe_load((ROOT / "configs" / "small.yaml").read_text())
JOBSET: Values = merge(JOB, {"trainer": {"nodes": 2, "gpus": 8}})
EXTERNAL = {"enabled": False, "external": {"host": "redis.example.com", "cidrs": ["10.0.0.9/32"]}}

#: Ordinary changes of a release.
CHANGES: dict[str, Values] = {
    "tag": at("image.tag", "0.2.0"),
    "resources": at("trainer.resources.requests.memory", "96Gi"),
    "grace": at("trainer.graceS", 300),
    "traces": at("monitoring.traces.endpoint", "http://collector:4318"),
    "redis": at("redis", EXTERNAL),
    "run file": at("trainer.run.file.seed", 7),
    "spot": at("trainer.spot.noticeS", 120),
    "tolerations": at("trainer.tolerations", [{"key": "spot", "operator": "Exists"}]),
}
#: Fields of a Job's spec that may change while it exists.
MUTABLE = {"backoffLimit", "suspend", "ttlSecondsAfterFinished", "parallelism"}


def run_of(values: Values, folder: Path = CHART) -> Manifest:
    rendered = render(values, folder=folder)
    (found,) = [*rendered.of_kind("Job"), *rendered.of_kind("JobSet")]
    return found


def cannot_change(run: Manifest) -> dict[str, Any]:
    return {key: value for key, value in run["spec"].items() if key not in MUTABLE}


@pytest.mark.parametrize("kind", [JOB, JOBSET], ids=["Job", "JobSet"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_another_job(kind: Values, change: str) -> None:
    before, after = run_of(kind), run_of(merge(kind, CHANGES[change]))
    assert cannot_change(before) != cannot_change(after)
    assert before["metadata"]["name"] != after["metadata"]["name"]


@pytest.mark.parametrize("kind", [JOB, JOBSET], ids=["Job", "JobSet"])
def test_another_version_of_the_chart_makes_another_job_or_changes_nothing_fixed(
    kind: Values, tmp_path: Path
) -> None:
    folder = tmp_path / "assay"
    shutil.copytree(CHART, folder)
    file = folder / "Chart.yaml"
    file.write_text(file.read_text().replace("version: 0.1.0", "version: 0.1.1", 1))
    before, after = run_of(kind), run_of(kind, folder)
    is_same = before["metadata"]["name"] == after["metadata"]["name"]
    assert is_same == (cannot_change(before) == cannot_change(after))


@pytest.mark.parametrize(
    "values", [at("trainer.run.keepFinishedS", 60), at("trainer.replicas", 0), {}], ids=str
)
def test_what_may_be_changed_keeps_the_job(values: Values) -> None:
    before, after = run_of(JOB), run_of(merge(JOB, values))
    assert before["metadata"]["name"] == after["metadata"]["name"]
    assert cannot_change(before) == cannot_change(after)


def test_a_run_is_paused_and_kept_for_a_time() -> None:
    spec = run_of(JOB)["spec"]
    assert (spec["suspend"], spec["ttlSecondsAfterFinished"]) == (False, 604800)
    paused = merge(JOB, {"trainer": {"replicas": 0, "run": {"keepFinishedS": 0}}})
    assert run_of(paused)["spec"]["suspend"] is True
    assert "ttlSecondsAfterFinished" not in run_of(paused)["spec"]


@pytest.mark.parametrize("kind", [JOB, JOBSET], ids=["Job", "JobSet"])
def test_kueue_starts_a_run_of_its_queue(kind: Values) -> None:
    run = run_of(merge(kind, at("trainer.queueName", "gpus")))
    assert run["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    assert run["spec"]["suspend"] is True
    assert "kueue.x-k8s.io/queue-name" not in run_of(kind)["metadata"]["labels"]


@pytest.mark.parametrize(("kind", "pods"), [(JOB, 1), (JOBSET, 2)], ids=["Job", "JobSet"])
def test_a_budget_holds_all_pods_of_a_run(kind: Values, pods: int) -> None:
    """Kubernetes refuses to count what may be missing of a Job's pods."""
    rendered = render(merge(kind, at("trainer.podDisruptionBudget.enabled", True)))
    spec = rendered.one("trainer/pdb.yaml")["spec"]
    assert spec["minAvailable"] == pods
    assert "maxUnavailable" not in spec
    (pod,) = [pod for name, pod in rendered.pods() if "-run-" in name]
    assert spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_every_budget_lets_pods_go_that_do_not_work() -> None:
    on = {name: {"podDisruptionBudget": {"enabled": True}} for name in ("trainer", "redis")}
    budgets = render(on).of_kind("PodDisruptionBudget")
    assert len(budgets) == 7
    assert {one["spec"]["unhealthyPodEvictionPolicy"] for one in budgets} == {"AlwaysAllow"}


@pytest.mark.parametrize("notice_s", [30, 120])
def test_on_spot_nodes_a_trainer_has_no_longer_than_the_notice(notice_s: int) -> None:
    spot = at("trainer.spot.noticeS", notice_s)
    pods = [
        run_of(merge(JOB, spot))["spec"]["template"],
        render(spot).one("trainer/statefulset.yaml")["spec"]["template"],
    ]
    for pod in pods:
        assert pod["spec"]["terminationGracePeriodSeconds"] == notice_s
        assert int(environment(pod)["ASSAY_SHUTDOWN_GRACE_S"]) == notice_s - 15


def test_a_refused_configuration_ends_the_job_and_a_drain_does_not() -> None:
    ignored, refused = run_of(JOB)["spec"]["podFailurePolicy"]["rules"]
    assert ignored["action"] == "Ignore"
    assert ignored["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert refused == {
        "action": "FailJob",
        "onExitCodes": {"containerName": "trainer", "operator": "In", "values": [2]},
    }


class Pod:
    """The script of a rendered pod with the real command, and its files below a folder."""

    def __init__(self, home: Path, values: Values, valkey: TestValkey) -> None:
        run = run_of(values)
        pod = run["spec"]["template"]
        (rule,) = [r for r in run["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in r]
        self.refused = rule["onExitCodes"]["values"]
        self.file = values["trainer"]["run"]["file"]
        self.folder = home / Path(environment(pod)["RUN_FOLDER"]).name
        config = home / run["metadata"]["name"]
        config.mkdir()
        for name, text in render(values).one("trainer/configmap.yaml")["data"].items():
            (config / name).write_text(text)
        shell, flag, script = container(pod)["command"]
        self._command = [shell, flag, script.replace("/etc/assay", str(config))]
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        self._variables = {
            **{"PATH": path, "HOME": str(home), "RUN_FOLDER": str(self.folder)},
            **{"ASSAY_REDIS_URL": valkey.url, "ASSAY_RUNS": str(home)},
        }

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self._command, env=self._variables, stderr=subprocess.PIPE, text=True
        )

    def end(self) -> tuple[int, str]:
        process = self.start()
        _, said = process.communicate(timeout=120)
        return process.returncode, said

    def begin(self) -> None:
        """Start it, and kill it as soon as it has its folder."""
        process = self.start()
        try:
            wait_until((self.folder / "config.json").exists, "the run to begin")
        finally:
            process.kill()
            process.communicate()

    @property
    def seed(self) -> int:
        return int(json.loads((self.folder / "config.json").read_text())["config"]["seed"])


def only_sft(seed: int) -> Values:
    """Return a Job whose run asks no service."""
    file = RUN | {"seed": seed, "grpo": None, "evaluation": {"tiers": []}}
    return merge(JOB, at("trainer.run.file", file))


def test_a_changed_run_file_begins_a_new_run_and_the_same_one_resumes(
    tmp_path: Path, valkey: TestValkey
) -> None:
    first = Pod(tmp_path, only_sft(1), valkey)
    folder = create_run(first.folder, RunConfig.model_validate(first.file))
    second = Pod(tmp_path, only_sft(2), valkey)
    second.begin()
    assert first.folder != second.folder
    assert (first.seed, second.seed) == (1, 2), "the old run keeps its configuration"

    again = Pod(tmp_path, merge(only_sft(1), CHANGES["tag"]), valkey)
    assert again.folder == first.folder, "another image resumes the run"
    # Helm makes the new Job before it deletes the old one, whose pod writes its checkpoint.
    with (folder.path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, said = again.end()
    assert "belongs to" in said
    assert code not in (0, *again.refused), "it is tried again"
    folder.write_status(RunStatus(state="finished"))
    assert again.end() == (0, ""), "a finished run ends at once"


def test_a_refused_run_file_has_the_exit_code_that_ends_the_job(
    tmp_path: Path, valkey: TestValkey
) -> None:
    pod = Pod(tmp_path, merge(JOB, at("trainer.run.file", RUN | {"sede": 1})), valkey)
    code, said = pod.end()
    assert "sede: unknown key" in said
    assert code in pod.refused
