"""Judges' verdicts on labelled examples, and the calibration from them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import JsonValue

from assay_judge.calibration import measures
from assay_judge.calibration.examples import Example
from assay_judge.calibration.observations import Observation
from assay_judge.calibration_record import Calibration, Expense, JudgeCalibration
from assay_judge.config import JudgeConfig, deciding_settings
from assay_shared.types import Label


def seen(gold: str, said: str | None, number: int = 0, answer: str = "x") -> Observation:
    label = None if said is None else Label(said)
    fields = {"id": str(number), "question": "q", "answer": answer, "label": gold}
    return Observation(Example.model_validate(fields), label)


def settings(**changes: object) -> dict[str, JsonValue]:
    """The settings that decide the verdicts of the judge `primary`."""
    basics = {"kind": "openai", "name": "primary", "base_url": "http://127.0.0.1:1", "model": "m"}
    config = JudgeConfig.model_validate({"chain": [basics | changes]})
    return deciding_settings(config, "primary")


def calibrated(folder: Path, age_days: float = 0.0, **changes: object) -> Path:
    """A file with a judge of kappa 0.7 in all and in math, and 0 in law."""
    good = [seen("CORRECT", "CORRECT")] * 51 + [seen("INCORRECT", "INCORRECT")] * 51
    good += [seen("CORRECT", "INCORRECT")] * 9 + [seen("INCORRECT", "CORRECT")] * 9
    poor = [seen(a, b) for a in ("CORRECT", "INCORRECT") for b in ("CORRECT", "INCORRECT")]
    judge = JudgeCalibration(
        judge="primary",
        model="m",
        settings=settings(**changes),
        template="abc",
        overall=measures.agreement(good),
        domains={"math": measures.agreement(good), "law": measures.agreement(poor)},
        stability=None,
        against_primary=None,
        length_bias=None,
        position_bias=None,
        self_preference=None,
        probes=(),
        failures={},
        cost=Expense(num_requests=0, tokens=0, money=0.0),
    )
    calibration = Calibration(
        created=datetime.now(UTC) - timedelta(days=age_days),
        dataset="examples.jsonl",
        dataset_digest="0" * 64,
        num_examples=120,
        num_repeated=0,
        verify=(),
        judges=(judge,),
    )
    path = folder / "calibration.json"
    path.write_text(calibration.model_dump_json())
    return path
