"""Pages of evaluations and of runs side by side, over HTTP."""

import shutil
from pathlib import Path

import aiohttp

from assay_shared.settings.run_file import load_config
from assay_shared.types import PolicyVersion, Status
from assay_trainer.config import RunConfig
from assay_trainer.evaluation.evaluator import EvaluationSample, TaskEvaluation, TaskResult
from assay_trainer.service.app import create_app
from assay_trainer.service.record import create_run
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve
from tests.support.browser.stored_runs import DEMO, make_run
from tests.unit.trainer.evaluation.test_report import make_step

_HOSTILE = "<script>alert(1)</script>"


def evaluation(name: str, right: set[int]) -> str:
    """Return an evaluation of eight tasks, of which some are answered right."""
    results = [
        TaskResult(
            task_id=f"t/{one}",
            prompt=_HOSTILE,
            tags={"domain": "code" if one % 2 else "lookup"},
            samples=[
                EvaluationSample(
                    text=f"{name} {one} {_HOSTILE}",
                    outcome=Status.ACCEPTED if one in right else Status.WRONG_ANSWER,
                )
            ],
        )
        for one in range(8)
    ]
    policy = PolicyVersion(version=len(right), digest="d" * 64)
    found = TaskEvaluation(name=name, policy=policy, confidence=0.95, results=results)
    return found.model_dump_json()


async def test_evaluations_flips_and_runs_side_by_side(serve: Serve, tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    run.evaluation("before").parent.mkdir()
    run.evaluation("before").write_text(evaluation("before", {0, 1}))
    run.evaluation("after").write_text(evaluation("after", {1, 2, 3}))
    shutil.copytree(run.path, tmp_path / "b")
    (tmp_path / "b/evaluation/after.json").write_text(evaluation("after", {1}))
    make_run(tmp_path / "c")
    url = serve(create_app(TrainerSettings(runs=tmp_path)))
    async with aiohttp.ClientSession(url) as session:

        async def page(path: str, status: int = 200) -> str:
            async with session.get(path) as response:
                assert response.status == status, await response.text()
                html = await response.text()
                assert _HOSTILE not in html
                return html

        found = await page("/runs/a/evaluations")
        assert "held_out[domain=code]" in found
        assert found.count("/runs/a/evaluations/task?") == 3
        task = await page("/runs/a/evaluations/task?set=held_out&task=t%2F0")
        assert "before 0" in task
        assert "after 0" in task
        await page("/runs/a/evaluations/task?set=held_out&task=none", 404)
        assert "no evaluation" in await page("/runs/c/evaluations")
        for over in ("updates", "tokens", "time"):
            assert "-25.0 points" in await page(f"/compare?run=a&run=b&over={over}")
        await page("/compare?run=a", 422)
        async with session.head("/runs/a") as response:
            assert response.status == 200


async def test_curves_and_settings_of_runs_with_steps(serve: Serve, tmp_path: Path) -> None:
    for name, size in (("a", 4), ("b", 8)):
        config = load_config(RunConfig, DEMO, (f"grpo.group_size={size}",))
        run = create_run(tmp_path / name, config)
        for number in (1, 2, 3):
            step = make_step(number, num_tokens=10 * size, step_s=1800.0)
            run.record("step", **step.model_dump(mode="json"))
    url = serve(create_app(TrainerSettings(runs=tmp_path)))
    ends = {"updates": "step 3", "tokens": "240 tokens", "time": "1.5 hours"}
    async with aiohttp.ClientSession(url) as session:
        for over, end in ends.items():
            async with session.get(f"/compare?run=a&run=b&over={over}") as response:
                assert response.status == 200
                html = await response.text()
            assert f'<span class="last">{end}</span>' in html
            assert html.count('<polyline class="curve r0"') > 1
            assert html.count('<polyline class="curve r0"') == html.count('"curve r1" vector')
            row = html.split('<th scope="row">grpo.group_size</th>')[1].split("</tr>")[0]
            assert "<code>4</code>" in row
            assert "<code>8</code>" in row
