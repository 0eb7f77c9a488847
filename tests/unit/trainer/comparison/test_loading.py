"""What is compared, as it is read: evaluations, runs, and the ways in which they are broken."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_shared.errors import AssayError, DatasetError, InvalidInput, NotFound
from assay_shared.settings.run_file import load_config
from assay_shared.types import PolicyVersion
from assay_trainer import config as trainer_config
from assay_trainer.comparison.comparability import notes
from assay_trainer.comparison.comparing import ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import has_two_evaluations, read_arm, read_measurement
from assay_trainer.config import RunConfig
from assay_trainer.evaluate.evaluation import write_results
from assay_trainer.evaluation.evaluator import EvaluationSample, TaskEvaluation, TaskResult
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.service.record import create_run
from tests.support.evaluations import RIGHT, WRONG, make_sample, sampled, write_evaluation

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


def write_run(path: Path, num_right: int = 2) -> Path:
    """Write a run with both evaluations: four samples of each of ten tasks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    create_run(path, load_config(RunConfig, DEMO))
    (path / "evaluation").mkdir()
    for version, name in enumerate(("before", "after")):
        right = num_right + version
        samples = [
            EvaluationSample(text=f"{name} {i}", outcome=RIGHT if i < right else WRONG)
            for i in range(3)
        ]
        lost = EvaluationSample(text="", outcome=None, failure="planted")
        found = TaskEvaluation(
            name=name,
            policy=PolicyVersion(version=version, digest=str(version) * 64),
            confidence=0.95,
            results=[
                TaskResult(task_id=f"t{i}", prompt=f"p{i}", tags={}, samples=[*samples, lost])
                for i in range(10)
            ],
        )
        (path / "evaluation" / f"{name}.json").write_text(found.model_dump_json())
    return path


def broken_sample(name: str, value: object) -> Callable[[Path], None]:
    """Return the change of a field of the last sample."""
    return _changed(name, value, slice(-1, None))


def broken_sample_of_all(name: str, value: object) -> Callable[[Path], None]:
    return _changed(name, value, slice(None))


def _changed(name: str, value: object, chosen: slice) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        file = path / "m" / "samples.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines[chosen]:
            line[name] = value
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return change


def test_an_evaluation_is_read_with_its_failures_and_costs(tmp_path: Path) -> None:
    path = write_evaluation(
        tmp_path / "sft", {"mbpp": {"a": [RIGHT, None], "b": [WRONG, RIGHT]}}, protocol=sampled(2)
    )
    found = read_measurement(str(path))
    tasks = found.sets["mbpp"]
    assert (tasks.num_scored, tasks.num_failed) == (3, 1)
    assert tasks.tasks["a"].samples[0].num_tokens == 100
    assert tasks.tasks["a"].samples[0].sandbox_cpu_s == 0.5
    assert found.settings["protocol.temperature"] == "1.0"
    assert found.settings["engine.dtype"] == "bfloat16"
    assert "protocol.seed" not in found.settings, "another sampling seed may be compared"
    assert found.free_settings["protocol.seed"] == "0"
    assert found.policy_digest is not None


def test_a_run_has_an_evaluation_before_and_after_training(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert has_two_evaluations(str(run))
    before, after = (read_measurement(f"{run}:{name}") for name in ("before", "after"))
    assert read_measurement(str(run)).files_digest == after.files_digest
    assert read_measurement(str(run / "evaluation" / "before.json")).policy == "version 0"
    assert before.policy_digest == "0" * 64
    assert before.settings["protocol.samples_per_task"] == "4"
    assert before.sets["held_out"].digest == after.sets["held_out"].digest
    assert before.sets["held_out"].num_failed == 10


def test_of_a_run_nobody_knows_how_many_tests_passed(tmp_path: Path) -> None:
    """It keeps outcomes alone: a program that passed 3 of 5 tests is a wrong answer."""
    run = str(write_run(tmp_path / "run"))
    before, after = (read_arm(None, [f"{run}:{name}"]) for name in ("before", "after"))
    rows = compare_arms(before, [after], ComparisonPlan()).rows
    assert "pass@1" in {row.metric for row in rows}
    assert "pass_ratio" not in {row.metric for row in rows if row.value is not None}
    with pytest.raises(InvalidInput, match="no evaluation of held_out tells pass_ratio"):
        compare_arms(before, [after], ComparisonPlan(metrics=["pass_ratio"]))


def test_a_failure_that_a_later_line_replaces_is_told(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path / "sft", {"m": {"a": [RIGHT], "b": [WRONG]}})
    lost = make_sample("a", 0, None).model_dump_json()
    samples = path / "m" / "samples.jsonl"
    samples.write_text(lost + "\n" + samples.read_text())
    found = read_measurement(str(path)).sets["m"]
    assert (found.num_replaced, found.num_scored, found.num_failed) == (1, 2, 0)


def write_metrics(path: Path) -> None:
    write_results(EvaluationFolder(path))


def one_more_right(path: Path) -> None:
    file = path / "m" / "samples.jsonl"
    file.write_text(
        file.read_text()
        .replace('"wrong_answer"', '"accepted"')
        .replace('"reward": 0.0', '"reward": 1.0')
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (one_more_right, "overall.reward"),
        (broken_sample_of_all("num_tokens", 90), "overall.costs.tokens.total"),
        (broken_sample_of_all("num_tokens", None), "overall.costs.tokens.total"),
        (broken_sample_of_all("outcome", "time_limit"), "overall.outcomes.accepted"),
    ],
)
def test_metrics_of_other_samples_are_refused(
    tmp_path: Path, change: Callable[[Path], None], field: str
) -> None:
    path = write_evaluation(tmp_path / "sft", {"m": {"a": [RIGHT], "b": [WRONG]}})
    write_metrics(path)
    read_measurement(str(path))
    change(path)
    with pytest.raises(DatasetError, match=r"metrics.json: .* of samples.jsonl") as raised:
        read_measurement(str(path))
    assert raised.value.field == field
    assert "assay evaluate" in str(raised.value.hint)
    write_metrics(path)
    read_measurement(str(path))


@pytest.mark.parametrize(
    ("text", "message", "field"),
    [
        ("{}", r"metrics.json lacks a number", "overall"),
        ('{"overall": {"num_tasks": 2}}', r"metrics.json lacks a number", "num_samples"),
        ("null", r"metrics.json is not of the form", "overall"),
        ('{"overall": []}', r"metrics.json is not of the form", "overall"),
        ("{", r"metrics.json cannot be read: Expecting", None),
    ],
)
def test_metrics_of_another_form_are_refused(
    tmp_path: Path, text: str, message: str, field: str | None
) -> None:
    path = write_evaluation(tmp_path / "sft", {"m": {"a": [RIGHT], "b": [WRONG]}})
    (path / "m" / "metrics.json").write_text(text)
    with pytest.raises(DatasetError, match=message) as raised:
        read_measurement(str(path))
    assert raised.value.field == field


def test_an_unfinished_evaluation_is_told(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path / "sft", {"m": {"a": [RIGHT], "b": []}})
    record = json.loads((path / "evaluation.json").read_text())
    (path / "evaluation.json").write_text(json.dumps(record | {"finished": None}))
    copied = path.rename(tmp_path / "partial")
    base = write_evaluation(tmp_path / "base", {"m": {"a": [RIGHT]}})
    write_metrics(base)
    arms = [read_arm(None, [str(one)]) for one in (base, copied)]
    assert arms[1].name == "partial", "the name that a person sees and gives"
    assert notes(arms[0], arms[1:]) == [
        f"partial ({copied}) is unfinished: its missing samples count as samples without a score."
    ]
    assert [arm.measurements[0].sets["m"].num_failed for arm in arms] == [0, 1]


def test_samples_that_no_metrics_check_are_told(tmp_path: Path) -> None:
    paths = [
        write_evaluation(tmp_path / name, {"m": {"a": [RIGHT], name: [WRONG]}})
        for name in ("base", "other")
    ]
    write_metrics(paths[0])
    before, after = (read_arm(None, [str(one)]) for one in paths)
    (told,) = [one for one in notes(before, [after]) if "metrics.json" in one]
    assert told.startswith(f"other ({paths[1]}) has no metrics.json of m: ")


def emptied(path: Path) -> None:
    (path / "m" / "tasks.jsonl").write_text("")


def shortened(path: Path) -> None:
    file = path / "m" / "samples.jsonl"
    file.write_text(file.read_text().splitlines(keepends=True)[0])


def without_record(path: Path) -> None:
    (path / "evaluation.json").unlink()


def unknown_record_field(path: Path) -> None:
    record = json.loads((path / "evaluation.json").read_text())
    (path / "evaluation.json").write_text(json.dumps(record | {"colour": "red"}))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (broken_sample("colour", "red"), DatasetError, "samples.jsonl:2"),
        (broken_sample("num_tokens", -1), DatasetError, "samples.jsonl:2"),
        (broken_sample("num_tokens", 10**400), DatasetError, "num_tokens: "),
        (broken_sample("reward", float("nan")), DatasetError, "finite number"),
        (broken_sample("reward", None), DatasetError, "an outcome and no reward"),
        (broken_sample("outcome", "maybe"), DatasetError, "samples.jsonl:2"),
        (broken_sample("task_id", "z"), DatasetError, "no task is called 'z'"),
        (broken_sample("pass_ratio", 1.5), DatasetError, "pass_ratio: "),
        (broken_sample("pass_ratio", float("nan")), DatasetError, "finite number"),
        (emptied, DatasetError, "has 0 tasks, and evaluation.json says 2"),
        (shortened, DatasetError, "its 1 lines lack sample 0 of 't1'"),
        (without_record, NotFound, "neither an evaluation nor a run"),
        (unknown_record_field, DatasetError, "colour"),
    ],
)
def test_a_broken_evaluation_is_refused(
    tmp_path: Path, change: Callable[[Path], None], error: type[AssayError], message: str
) -> None:
    path = write_evaluation(tmp_path / "sft", {"m": {"t0": [RIGHT], "t1": [WRONG]}})
    change(path)
    with pytest.raises(error) as raised:
        read_measurement(str(path))
    assert message in str(raised.value)


def test_a_run_with_an_unknown_field_or_a_task_twice_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    file = run / "evaluation" / "after.json"
    written = json.loads(file.read_text())
    file.write_text(json.dumps(written | {"colour": "red"}))
    with pytest.raises(DatasetError, match="colour"):
        read_measurement(str(run))
    file.write_text(json.dumps(written | {"results": written["results"] + written["results"][:1]}))
    with pytest.raises(DatasetError, match="'t0' stands there twice"):
        read_measurement(str(run))
    file.write_text("")
    with pytest.raises(DatasetError, match="after.json"):
        read_measurement(str(run))


def test_a_folder_of_evaluations_names_them(tmp_path: Path) -> None:
    for step in (100, 200):
        write_evaluation(tmp_path / "steps" / f"step-{step}", {"m": {"a": [RIGHT]}})
    with pytest.raises(InvalidInput, match="holds 2 evaluations.*step-100, step-200"):
        read_measurement(str(tmp_path / "steps"))
    with pytest.raises(NotFound, match="there is no"):
        read_measurement(str(tmp_path / "nowhere"))
    with pytest.raises(NotFound, match="x is not a run folder"):
        read_measurement(f"{write_evaluation(tmp_path / 'x', {'m': {'a': [RIGHT]}})}:before")


def test_two_seeds_of_an_arm_are_two_evaluations(tmp_path: Path) -> None:
    path = str(write_evaluation(tmp_path / "sft", {"m": {"a": [RIGHT]}}))
    with pytest.raises(InvalidInput, match="same evaluation"):
        read_arm("sft", [path, path])
