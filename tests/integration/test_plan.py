"""`assay train --plan` against real services."""

import json
from pathlib import Path

from assay_shared.local.launcher import Launcher
from tests.integration.conftest import Assay, demo_file
from tests.support.runs import QUICK


def test_a_plan_measures_a_run_and_leaves_nothing(
    assay: Assay, mesh: Launcher, warm: tuple[str, ...], tmp_path: Path
) -> None:
    settings = [one for one in QUICK if not one.startswith(("sft", "grpo.signal"))]
    runs = Path(mesh.environment["ASSAY_RUNS"])
    before = sorted(runs.iterdir())
    command = ("train", demo_file(), *warm, *settings, "grpo.checkpoint_every=9")
    plan = json.loads(assay.run(*command, "--plan", "--json"))
    assert plan["num_weights"] > 100_000
    assert plan["memory"]["estimated_total"] > 16 * plan["num_weights"]
    step, signal = plan["step"], plan["signal"]
    assert step["rollouts_s"] > 0
    assert step["update_s"] > 0
    assert step["publish_s"] > 0
    assert step["step_s"] <= step["rollouts_s"] + step["update_s"] + step["publish_s"]
    # Groups of 4 answers of at most 24 tokens; each row has its prompt too.
    assert 16 * 2 < step["num_tokens"] < 16 * 256
    assert signal["num_groups"] >= 32
    assert signal["share"]["low"] <= signal["share"]["value"] <= signal["share"]["high"]
    assert ("grpo.checkpoint_every", False) in [
        (one["field"], one["refused"]) for one in plan["findings"]
    ]
    assert sorted(runs.iterdir()) == before


def test_a_plan_of_a_run_that_would_be_refused_exits_with_1(assay: Assay) -> None:
    shown = assay.start("train", demo_file(), *QUICK, "grpo.max_tokens=300", "--plan")
    output = assay.finish(shown)
    assert shown.returncode == 1, output
    assert "refused: grpo.max_tokens: 300 tokens of an answer do not fit" in output
    wrong = assay.start("train", demo_file(), "grpo.group_size=1", "--plan")
    assert "refused: grpo.group_size" in assay.finish(wrong)
    assert wrong.returncode == 1
