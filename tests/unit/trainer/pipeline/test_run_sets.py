"""The data stages of a run, against a real reward service."""

import json
from pathlib import Path

import pytest
import yaml

from assay_reward.app import create_app
from assay_reward.settings import RewardSettings
from assay_shared.runs.run_folder import Event
from assay_shared.settings.environment import ServiceSettings
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.run_sets import open_sets, validate_rewards
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop
from tests.conftest import Serve
from tests.support.fakes import make_task

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"
RUBRIC = """
name: careful
description: Two parts, each to be normalised alone.
recommend: {normalise: components}
components:
  - {verifier: math, weight: 0.5}
  - {verifier: exact_match, weight: 0.5}
"""


@pytest.mark.slow
@pytest.mark.parametrize("used", ["group", "components"])
def test_a_run_tells_which_rubric_recommends_another_normalisation(
    serve: Serve, tmp_path: Path, used: str
) -> None:
    (tmp_path / "careful.yaml").write_text(RUBRIC)
    url = serve(create_app(RewardSettings(reward_rubrics=tmp_path / "careful.yaml")))
    sources = {}
    for name, kinds in (("train", range(8)), ("held_out", range(8, 12))):
        tasks = [
            make_task(
                f"sum-{n}", rubric="careful", gold=str(n), prompt=f"What is {n} + 0?", tests=()
            )
            for n in kinds
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(task.model_dump_json() + "\n" for task in tasks))
        sources[name] = {"kind": "jsonl", "path": str(path)}
    demo = yaml.safe_load(DEMO.read_text())
    demo["data"] = {**sources, "validation": {"sample": 2, "max_bad_share": 1.0}}
    demo["grpo"]["normalise"] = used
    config = RunConfig.model_validate(demo)
    told: list[Event] = []
    run = RunContext(
        create_run(tmp_path / "run", config),
        config,
        ServiceSettings(reward_url=url),
        Stop(),
        Ranks(),
        told.append,
    )
    validate_rewards(run, open_sets(run))
    differing = [event.data for event in told if event.kind == "normalise_differs"]
    expected = {"rubric": "careful", "recommended": "components", "used": "group"}
    assert differing == ([expected] if used == "group" else []), json.dumps(differing)
