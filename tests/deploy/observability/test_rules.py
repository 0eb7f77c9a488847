"""Alerts against the series of a mesh in trouble, or in health. Needs `promtool`."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
RULES = ROOT / "k8s" / "assay" / "files" / "rules" / "assay.yml"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: Debian's package prometheus"
)

MINUTES = 90
JOB = 'job="assay-reward", instance="a"'
#: A counter that grows by a number a minute, a gauge that stays.
Series = dict[str, str]


def counts(a_minute: float) -> str:
    return f"0+{a_minute:g}x{MINUTES}"


def stays(value: float) -> str:
    return f"{value:g}x{MINUTES}"


HEALTHY: Series = {
    f"up{{{JOB}}}": stays(1),
    f"process_start_time_seconds{{{JOB}}}": stays(1000),
    f"process_open_fds{{{JOB}}}": stays(50),
    f"process_max_fds{{{JOB}}}": stays(1024),
    'assay_service_info{service="reward", version="1"}': stays(1),
    'assay_service_info{service="judge", version="1"}': stays(1),
    f'assay_http_requests_total{{{JOB}, status="200"}}': counts(1000),
    f'assay_http_requests_total{{{JOB}, status="429"}}': counts(10),
    "assay_trainer_runs_free_bytes": stays(1e12),
    "assay_queue_up": stays(1),
    "assay_queue_waiting": stays(10),
    "assay_queue_taken": stays(4),
    'assay_trainer_runs{state="failed"}': stays(1),
    'assay_trainer_step{run="r"}': counts(1),
    'assay_trainer_groups_total{run="r", fate="played"}': counts(100),
    'assay_trainer_groups_total{run="r", fate="without_signal"}': counts(50),
    'assay_trainer_refused_groups_total{run="r", reason="too_old"}': counts(5),
    'assay_trainer_mismatch_kl_k3_nats{run="r"}': stays(0.001),
    'assay_reward_answers_total{rubric="math", outcome="accepted"}': counts(500),
    'assay_reward_answers_total{rubric="math", outcome="wrong_answer"}': counts(500),
    'assay_reward_answers_total{rubric="math", outcome="judge"}': counts(10),
    'assay_judge_left_alone{provider="p"}': stays(0),
    'assay_judge_decisions_total{provider="p", label="CORRECT"}': counts(100),
    'assay_judge_decisions_total{provider="p", label="failed"}': counts(5),
    'assay_sandbox_info{isolation="pooled"}': stays(1),
    "assay_sandbox_run_seconds_count": counts(1000),
    "assay_sandbox_faults_total": counts(1),
    'assay_sandbox_refused_total{instance="s"}': stays(5),
    "assay_inference_version": stays(7),
    'assay_inference_replica_version{replica="x"}': stays(7),
    'assay_inference_replica_serving{replica="x"}': stays(1),
}

#: By alert, what differs from a healthy mesh.
TROUBLE: dict[str, Series] = {
    "AssayServiceDown": {f"up{{{JOB}}}": stays(0)},
    "AssayServiceRestarts": {f"process_start_time_seconds{{{JOB}}}": counts(60)},
    "AssayErrors": {f'assay_http_requests_total{{{JOB}, status="500"}}': counts(100)},
    "AssayOverload": {f'assay_http_requests_total{{{JOB}, status="429"}}': counts(900)},
    "AssayVersionsDiffer": {'assay_service_info{service="judge", version="2"}': stays(1)},
    "AssayOpenFiles": {f"process_open_fds{{{JOB}}}": stays(1000)},
    "AssayDiskLow": {"assay_trainer_runs_free_bytes": stays(1e9)},
    "AssayQueueDown": {"assay_queue_up": stays(0)},
    "AssayNoWorkers": {"assay_queue_taken": stays(0)},
    "AssayRunFailed": {'assay_trainer_runs{state="failed"}': f"0x{MINUTES - 4} 1x10"},
    "AssayRunStalls": {'assay_trainer_step{run="r"}': stays(12)},
    "AssayGroupsWithoutSignal": {
        'assay_trainer_groups_total{run="r", fate="without_signal"}': counts(95)
    },
    "AssayGroupsRefused": {
        'assay_trainer_refused_groups_total{run="r", reason="too_old"}': counts(40)
    },
    "AssayRewardFailures": {
        'assay_reward_answers_total{rubric="math", outcome="judge"}': counts(200)
    },
    "AssayNoRewards": {'assay_reward_answers_total{rubric="math", outcome="judge"}': counts(9000)},
    "AssayJudgeLeftAlone": {'assay_judge_left_alone{provider="p"}': stays(1)},
    "AssayJudgeFails": {'assay_judge_decisions_total{provider="p", label="failed"}': counts(80)},
    "AssaySandboxFallback": {'assay_sandbox_info{isolation="fallback"}': stays(1)},
    "AssaySandboxFaults": {"assay_sandbox_faults_total": counts(50)},
    "AssaySandboxSaturated": {'assay_sandbox_refused_total{instance="s"}': counts(5)},
    "AssayReplicaOut": {'assay_inference_replica_serving{replica="x"}': stays(0)},
    "AssayReplicaBehind": {'assay_inference_replica_version{replica="x"}': stays(6)},
    "AssayWeightMismatch": {'assay_trainer_mismatch_kl_k3_nats{run="r"}': stays(0.5)},
}
#: What cannot be without the other.
TOGETHER = {"AssayNoRewards": {"AssayRewardFailures"}}


def scenario(name: str, series: Series, firing: set[str]) -> dict[str, Any]:
    """Return exactly the alerts firing at the end."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": key, "values": value} for key, value in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(firing)
                ],
            }
        ],
    }


def run_scenarios(folder: Path, *scenarios: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = folder / "test.yml"
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [*scenarios]}
    file.write_text(yaml.safe_dump(content))
    return subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=120
    )


def test_each_alert_has_its_trouble() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == set(TROUBLE)


def test_a_healthy_mesh_is_quiet_and_each_trouble_raises_its_own_alert(tmp_path: Path) -> None:
    troubles = [
        scenario(alert, HEALTHY | series, {alert} | TOGETHER.get(alert, set()))
        for alert, series in TROUBLE.items()
    ]
    done = run_scenarios(tmp_path, scenario("healthy", HEALTHY, set()), *troubles)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_scenario_can_fail(tmp_path: Path) -> None:
    done = run_scenarios(tmp_path, scenario("healthy", HEALTHY, {"AssayServiceDown"}))
    assert done.returncode != 0


def test_promtool_takes_rules_and_configuration() -> None:
    config = ROOT / "deploy" / "prometheus" / "prometheus.yml"
    for command in (["check", "rules", str(RULES)], ["check", "config", "--syntax-only", config]):
        subprocess.run(["promtool", *map(str, command)], check=True, timeout=60)
