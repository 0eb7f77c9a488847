"""Alerts against the series of a mesh in trouble, or in health. Needs `promtool`."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.chart.rendering import Values, at, merge, render

ROOT = Path(__file__).parents[3]
RULES = ROOT / "k8s" / "assay" / "files" / "rules" / "assay.yml"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: Debian's package prometheus"
)

MINUTES = 90
JOB = 'job="assay-reward", instance="a"'
ENGINE = 'job="assay-engine", instance="e"'
#: A counter that grows by a number a minute, a gauge that stays.
Series = dict[str, str]


def counts(a_minute: float) -> str:
    return f"0+{a_minute:g}x{MINUTES}"


def stays(value: float) -> str:
    return f"{value:g}x{MINUTES}"


HEALTHY: Series = {
    f"up{{{JOB}}}": stays(1),
    f"up{{{ENGINE}}}": stays(1),
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
    'assay_executor_left_alone{provider="p"}': stays(0),
    'assay_executor_calls_total{model="m", outcome="answered"}': counts(100),
    'assay_executor_calls_total{model="m", outcome="ProviderFailed"}': counts(5),
    'assay_executor_calls_total{model="m", outcome="gone"}': counts(100),
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
    "AssayEngineNotUp": {f"up{{{ENGINE}}}": stays(0)},
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
    "AssayExecutorLeftAlone": {'assay_executor_left_alone{provider="p"}': stays(1)},
    "AssayExecutorFails": {
        'assay_executor_calls_total{model="m", outcome="ProviderFailed"}': counts(80)
    },
    "AssaySandboxFallback": {'assay_sandbox_info{isolation="fallback"}': stays(1)},
    "AssaySandboxFaults": {"assay_sandbox_faults_total": counts(50)},
    "AssaySandboxSaturated": {'assay_sandbox_refused_total{instance="s"}': counts(5)},
    "AssayReplicaOut": {'assay_inference_replica_serving{replica="x"}': f"1x{MINUTES - 10} 0x10"},
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


def run_scenarios(
    folder: Path, *scenarios: dict[str, Any], rules: Path = RULES
) -> subprocess.CompletedProcess[str]:
    file = folder / "test.yml"
    content = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [*scenarios]}
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


def test_an_engine_that_starts_raises_nothing_and_one_that_ends_does(tmp_path: Path) -> None:
    """It answers only after its model is loaded."""
    starts = {f"up{{{ENGINE}}}": f"_x{MINUTES - 18} 0x18"}
    ends = {f"up{{{ENGINE}}}": f"1x{MINUTES - 5} 0x5"}
    comes_back = {f"up{{{ENGINE}}}": f"0x{MINUTES - 5} 1x5"}
    done = run_scenarios(
        tmp_path,
        scenario("starts", HEALTHY | starts, set()),
        scenario("comes back", HEALTHY | comes_back, set()),
        scenario("ends", HEALTHY | ends, {"AssayServiceDown"}),
    )
    assert done.returncode == 0, done.stdout + done.stderr


#: The second release has another version and other steps, and is in another namespace.
RELEASES = (("team-a", "assay"), ("team-b", "assay-b"))
SECOND: Series = {
    'assay_service_info{service="reward", version="2"}': stays(1),
    'assay_service_info{service="judge", version="2"}': stays(1),
    "assay_inference_version": stays(90),
    'assay_inference_replica_version{replica="x"}': stays(90),
    'assay_trainer_step{run="r"}': "40+2x90",
}


def rules_of(
    folder: Path, *releases: tuple[str, str], values: Values | None = None
) -> tuple[Path, list[dict[str, Any]]]:
    """Write what Prometheus's operator loads of these releases; return the file, and all rules."""
    on = merge({"monitoring": {"rules": {"enabled": True}}}, values or {})
    groups = []
    for namespace, name in releases:
        rule = render(on, name=name, namespace=namespace).one("monitoring/prometheusrule.yaml")
        for group in rule["spec"]["groups"]:
            groups.append(group | {"name": f"{namespace}/{group['name']}"})
    file = folder / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": groups}))
    return file, [rule for group in groups for rule in group["rules"]]


def placed(series: Series, namespace: str, name: str) -> Series:
    """Return the series as scraped of a release, whose objects' names begin with the label."""
    release = name if name == "assay" else f"{name}-assay"
    own = f'namespace="{namespace}", release="{release}"'

    def of(key: str) -> str:
        name, _, labels = key.partition("{")
        return f"{name}{{{own}, {labels}" if labels else f"{name}{{{own}}}"

    return {of(key).replace('job="assay-', f'job="{release}-'): v for key, v in series.items()}


def in_release(name: str, series: Series, firing: set[str]) -> dict[str, Any]:
    """Return a scenario whose alerts are all of the first release, each once."""
    found = scenario(name, series, set())
    (test,) = found["promql_expr_test"]
    test["expr"] = 'count by (alertname, namespace, release) (ALERTS{alertstate="firing"})'
    namespace, release = RELEASES[0]
    place = f'namespace="{namespace}", release="{release}"'
    test["exp_samples"] = [
        {"labels": f'{{alertname="{alert}", {place}}}', "value": 1} for alert in sorted(firing)
    ]
    return found


def test_two_releases_raise_no_alert_about_each_other_and_each_trouble_one(tmp_path: Path) -> None:
    file, _ = rules_of(tmp_path, *RELEASES)
    second = placed(
        {k: v for k, v in HEALTHY.items() if "assay_service_info" not in k} | SECOND, *RELEASES[1]
    )
    quiet = in_release("both healthy", placed(HEALTHY, *RELEASES[0]) | second, set())
    troubles = [
        in_release(
            alert,
            placed(HEALTHY | series, *RELEASES[0]) | second,
            {alert} | TOGETHER.get(alert, set()),
        )
        for alert, series in TROUBLE.items()
    ]
    done = run_scenarios(tmp_path, quiet, *troubles, rules=file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_for_all_releases_together_would_raise_false_alerts(tmp_path: Path) -> None:
    """The scenario of two releases can fail."""
    both = placed(HEALTHY, *RELEASES[0]) | placed(HEALTHY | SECOND, *RELEASES[1])
    done = run_scenarios(tmp_path, scenario("both", both, set()))
    assert done.returncode != 0
    assert "AssayVersionsDiffer" in done.stdout + done.stderr


def test_under_gvisor_the_level_fallback_is_no_alarm(tmp_path: Path) -> None:
    gvisor = at("sandbox.isolation", "gvisor")
    file, rules = rules_of(tmp_path, RELEASES[0], values=gvisor)
    trouble = HEALTHY | TROUBLE["AssaySandboxFallback"]
    done = run_scenarios(
        tmp_path, in_release("gvisor", placed(trouble, *RELEASES[0]), set()), rules=file
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = {rule["alert"] for rule in rules}
    assert names == set(TROUBLE) - {"AssaySandboxFallback"}


def test_an_engine_may_take_as_long_as_the_chart_lets_it(tmp_path: Path) -> None:
    _, rules = rules_of(tmp_path, RELEASES[1], values=at("inference.startupS", 3000))
    (late,) = [rule for rule in rules if rule["alert"] == "AssayEngineNotUp"]
    assert late["for"] == "3300s"
