"""Calibrations against real endpoints: what is recorded, what a requirement takes, what is kept."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_judge.app import create_app
from assay_judge.calibration.run import run_calibration
from assay_judge.calibration_record import Calibration
from assay_judge.settings import JudgeSettings
from assay_shared.clients.http import NO_RETRY
from assay_shared.clients.judge import JudgeClient
from assay_shared.errors import ConfigError
from assay_shared.types import JudgeRequest, Verdict
from tests.conftest import Serve
from tests.support.upstream import Upstream, says, verdict

NUM_QUESTIONS = 6


def fair(asked: Mapping[str, Any]) -> dict[str, object]:
    """Right about every answer, and sure of it."""
    prompt = str(asked["messages"])
    if "<first>" in prompt:
        first = prompt.index("right answer") < prompt.index("wrong answer")
        return says(json.dumps({"better": "FIRST" if first else "SECOND"}))
    return verdict("CORRECT" if "right answer" in prompt else "INCORRECT")


def write_rows(folder: Path, *more: dict[str, object]) -> Path:
    rows: list[dict[str, object]] = [
        {"id": f"{n}{label}", "question": f"Question {n}", "answer": text, "label": label}
        for n in range(NUM_QUESTIONS)
        for label, text in (("CORRECT", "right answer"), ("INCORRECT", "wrong answer"))
    ]
    path = folder / "examples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    return path


def provider(url: str, **changes: object) -> dict[str, object]:
    return {"kind": "openai", "name": "j", "base_url": f"{url}/v1", "model": "mymodel"} | changes


def write_config(folder: Path, *chain: dict[str, object], **more: object) -> Path:
    path = folder / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": list(chain)} | more))
    return path


async def calibrate(folder: Path, config: Path, *, num_repeats: int = 1) -> Path:
    """Calibrate on the rows of the folder; return the calibration's file."""
    output = folder / "report"
    await asyncio.to_thread(
        run_calibration, folder / "examples.jsonl", output, config, num_repeats, False
    )
    return output / "calibration.json"


# The requirement


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"model": "unrelated-7b"}, {}, 'model was "mymodel" and is "unrelated-7b"'),
        ({"structured": True}, {}, "structured was false and is true"),
        ({"reasoning_effort": "high"}, {}, 'reasoning_effort was null and is "high"'),
        ({"temperature": 0.5}, {}, "temperature was 0.0 and is 0.5"),
        ({"seed": 2}, {}, "seed was 1 and is 2"),
        ({"max_tokens": 64}, {}, "max_tokens was 512 and is 64"),
        ({"max_tokens_limit": 600}, {}, "max_tokens_limit was 8192 and is 600"),
        ({"attempts": 1}, {}, "attempts was 4 and is 1"),
        ({"reason_first": True}, {}, "reason_first was false and is true"),
        ({"revision": "b"}, {}, 'revision was "" and is "b"'),
        ({"served_as": ["unrelated-7b"]}, {}, "served_as differs"),
        ({"extra_body": {"top_p": 0.5}}, {}, "extra_body differs"),
        ({}, {"voting": {"votes": 3}}, "voting differs"),
        (
            {"model": "unrelated-7b", "structured": True},
            {},
            'model was "mymodel" and is "unrelated-7b"; structured was false and is true',
        ),
    ],
)
async def test_a_calibration_of_other_settings_stops_the_start(
    serve: Serve,
    tmp_path: Path,
    changes: dict[str, object],
    more: dict[str, object],
    message: str,
) -> None:
    write_rows(tmp_path)
    url = serve(Upstream(fair).app)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(url)))
    required = {"file": str(file), "minimum_kappa": 0.6}
    served = provider(url, requirement=required, **changes)
    with pytest.raises(ConfigError, match=f"another judge 'j' .*: {message} .calibrate it again"):
        create_app(JudgeSettings(judge_config=write_config(tmp_path, served, **more)))


async def test_a_replica_with_other_limits_may_serve(serve: Serve, tmp_path: Path) -> None:
    write_rows(tmp_path)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(serve(Upstream(fair).app))))
    replica = provider(
        serve(Upstream(fair).app),
        requirement={"file": str(file), "minimum_kappa": 0.6},
        timeout_s=5.0,
        limits={"concurrency": 2},
        price={"input_per_million": 1},
        open_after=2,
        cooldown_s=1.0,
    )
    url = serve(create_app(JudgeSettings(judge_config=write_config(tmp_path, replica))))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        request = JudgeRequest(question="Question", answers=("right answer",))
        (judgement,) = (await client.judge(request)).judgements
    assert isinstance(judgement, Verdict)
    assert judgement.judge == "j"


async def test_a_calibration_of_a_judge_without_a_model_is_not_one_of_a_model(
    serve: Serve, tmp_path: Path
) -> None:
    rows = write_rows(tmp_path).read_text().splitlines()
    known = [json.loads(row) | {"reference": "right answer"} for row in rows]
    (tmp_path / "examples.jsonl").write_text("\n".join(map(json.dumps, known)))
    config = write_config(tmp_path, {"kind": "reference", "name": "j"})
    file = await calibrate(tmp_path, config)
    served = provider("http://127.0.0.1:1", requirement={"file": str(file), "minimum_kappa": 0.6})
    with pytest.raises(ConfigError, match='kind was "reference" and is "openai"'):
        create_app(JudgeSettings(judge_config=write_config(tmp_path, served)))


async def test_a_file_without_the_settings_asks_for_another_calibration(
    serve: Serve, tmp_path: Path
) -> None:
    write_rows(tmp_path)
    url = serve(Upstream(fair).app)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(url)))
    old = json.loads(file.read_text())
    del old["judges"][0]["settings"]
    file.write_text(json.dumps(old))
    served = provider(url, requirement={"file": str(file), "minimum_kappa": 0.6})
    with pytest.raises(ConfigError, match=r"it has no judges.0.settings \(calibrate again\)"):
        create_app(JudgeSettings(judge_config=write_config(tmp_path, served)))


def doubtful(asked: Mapping[str, Any]) -> dict[str, object]:
    """Wrong at first and not certain; right in every further sample."""
    prompt, is_first = str(asked["messages"]), asked["temperature"] == 0
    label = "CORRECT" if ("right answer" in prompt) != is_first else "INCORRECT"
    confidence = 0.2 if is_first else 0.9
    return says(json.dumps({"verdict": label, "reason": "planted", "confidence": confidence}))


def sure(asked: Mapping[str, Any]) -> dict[str, object]:
    label = "CORRECT" if "right answer" in str(asked["messages"]) else "INCORRECT"
    return says(json.dumps({"verdict": label, "reason": "planted", "confidence": 0.9}))


@pytest.mark.parametrize("by", ["self", "panel"])
async def test_a_judge_that_votes_is_measured_with_its_votes(
    serve: Serve, tmp_path: Path, by: str
) -> None:
    write_rows(tmp_path)
    first = provider(serve(Upstream(doubtful).app))
    others = [provider(serve(Upstream(sure).app), name=name) for name in ("k", "l")]
    voting = {"voting": {"votes": 2, "by": by}}
    file = await calibrate(tmp_path, write_config(tmp_path, first, *others, **voting))
    measured = Calibration.read(file).judges[0]
    assert measured.overall.kappa is not None
    assert measured.overall.kappa.value == 1.0
    required = first | {"requirement": {"file": str(file), "minimum_kappa": 0.6}}
    url = serve(
        create_app(JudgeSettings(judge_config=write_config(tmp_path, required, *others, **voting)))
    )
    async with JudgeClient(url, retry=NO_RETRY) as client:
        request = JudgeRequest(question="Question", answers=("right answer",))
        (judgement,) = (await client.judge(request)).judgements
    assert isinstance(judgement, Verdict)
    assert (judgement.judge, str(judgement.label)) == ("j", "CORRECT")
    others[0]["model"] = "unrelated-7b"
    changed = write_config(tmp_path, required, *others, **voting)
    if by == "panel":
        with pytest.raises(ConfigError, match="panel differs"):
            create_app(JudgeSettings(judge_config=changed))
    else:
        create_app(JudgeSettings(judge_config=changed))
