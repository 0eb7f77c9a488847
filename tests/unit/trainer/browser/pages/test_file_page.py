"""A run as one file: its size, and an even choice of groups where not all fit."""

import itertools
import re
from pathlib import Path

from assay_shared.types import Status
from assay_trainer.browser.opening import open_for_reading
from assay_trainer.browser.pages.file_page import FilePage, _spread, file_page
from assay_trainer.evaluation.evaluator import EvaluationSample
from tests.support.browser.stored_runs import fill, keep, make_group, make_run
from tests.unit.trainer.evaluation.test_report import make_evaluation


def made(tmp_path: Path, num_samples: int, max_mib: int) -> FilePage:
    run = make_run(tmp_path / "a")
    fill(run, num_samples, groups_per_step=2)
    keep(run, 999, make_group(999, 999, "failed:judge", words=4000))
    with run.rollouts.open("a") as file:
        file.write("{broken\n")
    opened = open_for_reading(run, tmp_path / "index")
    opened.index.complete()
    return file_page(opened, max_mib * 2**20)


def test_a_small_run_is_in_the_file_as_a_whole(tmp_path: Path) -> None:
    page = made(tmp_path, 80, 25)
    assert page.num_samples == 81
    assert "81 of 81 stored samples" in " ".join(page.html.split())
    anchors = re.findall(r'<article id="([^"]+)"', page.html)
    links = re.findall(r'<a class="cell [^"]*" href="#([^"]+)"', page.html)
    assert sorted(links) == sorted(anchors)
    assert len(set(anchors)) == 81
    assert "damaged line rollouts.jsonl" in page.html
    addresses = re.findall(r'(?:href|src|action)="([^"]*)"', page.html)
    assert [one for one in addresses if not one.startswith(("#", "data:,"))] == []


def test_of_a_large_run_the_groups_are_spread_over_the_steps(tmp_path: Path) -> None:
    page = made(tmp_path, 4000, 3)
    assert 50 < page.num_samples < 4000
    assert 0.9 * 3 * 2**20 < len(page.html.encode()) <= 3 * 2**20
    steps = [int(step) for step in re.findall(r'<h2 class="step">Step (\d+)', page.html)]
    steps.remove(999)
    gaps = [second - first for first, second in itertools.pairwise(steps)]
    assert max(gaps) <= 2 * 250 / len(steps) + 2
    assert min(steps) <= 10


def test_evaluations_and_turned_tasks_are_in_the_file(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    fill(run, 400)
    hostile = "<script>alert(1)</script>"
    for name, right in (("before", set(range(0, 40))), ("after", set(range(20, 70)))):
        run.evaluation(name).parent.mkdir(exist_ok=True)
        found = make_evaluation(name, 0)
        results = [
            found.results[0].model_copy(
                update={
                    "task_id": f"t{one}",
                    "tags": {"domain": "code" if one % 2 else "lookup"},
                    "samples": [
                        EvaluationSample(
                            text=f"{name} {one} {hostile}" + "x" * 5000,
                            outcome=Status.ACCEPTED if one in right else Status.WRONG_ANSWER,
                        )
                    ],
                }
            )
            for one in range(400)
        ]
        evaluated = found.model_copy(update={"results": results})
        run.evaluation(name).write_text(evaluated.model_dump_json())
    opened = open_for_reading(run, tmp_path / "index")
    opened.index.complete()
    for mib in (1, 3):
        page = file_page(opened, mib * 2**20)
        assert len(page.html.encode()) <= mib * 2**20
        assert hostile not in page.html
        assert "held_out[domain=code]" in page.html
        links = re.findall(r'<li><a href="#(t[0-9]+)">', page.html)
        assert links
        assert set(links) == set(re.findall(r'<article id="(t[0-9]+)"', page.html))
        assert f"answers of {len(links)} of 50 tasks" in page.html
    assert len(links) == 50
    assert "before 0 " in page.html
    assert "after 0 " in page.html


def test_each_beginning_of_the_order_is_spread_evenly() -> None:
    for number in (0, 1, 2, 7, 100):
        assert sorted(_spread(list(range(number)))) == list(range(number))
    assert sorted(list(_spread(list(range(1000))))[:8]) == [0, 128, 256, 384, 512, 640, 768, 896]
