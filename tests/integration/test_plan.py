"""`assay train --plan` against real services."""

import json
import shutil
from pathlib import Path

from assay_shared.local.launcher import Launcher
from assay_shared.runs.run_lock import held
from tests.integration.conftest import Assay, demo_file
from tests.support.runs import QUICK

SAMPLED = [one for one in QUICK if not one.startswith("grpo.signal")]
SFT_ALONE = ["grpo=null", *(one for one in QUICK if not one.startswith("grpo."))]


def test_a_plan_measures_a_run_and_leaves_nothing(assay: Assay, mesh: Launcher) -> None:
    """The policy is one before SFT: that it solves nothing refuses nothing."""
    runs = Path(mesh.environment["ASSAY_RUNS"])
    before = sorted(runs.iterdir())
    command = ("train", demo_file(), *SAMPLED, "grpo.checkpoint_every=9", "sft.warmup_steps=5")
    plan = json.loads(assay.run(*command, "--plan", "--json"))
    assert plan["num_weights"] > 100_000
    assert plan["memory"]["estimated_total"] > 16 * plan["num_weights"]
    step, signal = plan["step"], plan["signal"]
    for phase in ("rollouts_s", "update_s", "publish_s"):
        assert step[phase] > 0
    assert step["step_s"] <= step["rollouts_s"] + step["update_s"] + step["publish_s"]
    # 4 groups of 4 answers; each row has a prompt and at most 24 tokens.
    assert 16 * 2 < step["num_tokens"] < 16 * 256
    assert signal["num_groups"] == 32
    assert signal["share"]["low"] <= signal["share"]["value"] <= signal["share"]["high"]
    found = [(one["field"], one["refused"]) for one in plan["findings"]]
    assert found == [("grpo.checkpoint_every", False)]
    assert sorted(runs.iterdir()) == before


def test_a_plan_that_samples_waits_for_the_run_that_trains(assay: Assay, mesh: Launcher) -> None:
    other = Path(mesh.environment["ASSAY_RUNS"]) / "other"
    other.mkdir()
    with held(other):
        plan = assay.run("train", demo_file(), *SFT_ALONE, "--plan", "--json")
        assert json.loads(plan)["stages"][0]["stage"] == "sft"
        sampling = assay.start("train", demo_file(), *SAMPLED, "--plan")
        assert "error: run other belongs to process" in assay.finish(sampling)
        assert sampling.returncode not in (0, 1)
    shutil.rmtree(other)


def test_a_plan_of_a_run_that_would_be_refused_exits_with_1(assay: Assay, tmp_path: Path) -> None:
    row = {
        "id": "a",
        "prompt": "1 + 1",
        "reference": "2",
        "role": "validation",
        "rubric": "nobodys",
    }
    (tmp_path / "set.jsonl").write_text(json.dumps(row) + "\n")
    tier = json.dumps(
        {
            "name": "small",
            "at": "end",
            "sets": {"sums": {"kind": "jsonl", "path": str(tmp_path / "set.jsonl")}},
            "protocol": {"kind": "greedy"},
        }
    )
    for settings, told in (
        ((*SAMPLED, f"evaluation.tiers=[{tier}]"), "evaluation.tiers small.sets.sums: "),
        (("grpo.group_size=1",), "grpo.group_size: Input should be greater"),
        ((*SAMPLED, "sft=null"), "data.train: 0 of 192 sampled groups have unequal rewards"),
    ):
        settings = tuple(one for one in settings if "sft=null" not in settings or one[:4] != "sft.")
        planned = assay.start("train", demo_file(), *settings, "--plan")
        output = assay.finish(planned)
        assert f"refused: {told}" in output
        assert planned.returncode == 1, output
