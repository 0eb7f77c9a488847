import json
import logging

from assay_shared.telemetry.context import log_fields, request_scope
from assay_shared.telemetry.logs import JsonFormatter


def line(**extra: object) -> dict[str, object]:
    record = logging.makeLogRecord({"msg": "did %d", "args": (3,), "levelname": "INFO", **extra})
    parsed: dict[str, object] = json.loads(JsonFormatter("reward").format(record))
    return parsed


def test_a_line_bears_the_ids_of_the_work_in_hand() -> None:
    with request_scope("r1"), log_fields(run="demo", group="g7"):
        inside = line(took_s=0.5)
    assert inside["message"] == "did 3"
    assert inside["service"] == "reward"
    assert (inside["request_id"], inside["run"], inside["group"]) == ("r1", "demo", "g7")
    assert inside["took_s"] == 0.5
    assert "request_id" not in line()


def test_a_traceback_is_part_of_its_line() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        shown = line(exc_info=(type(error), error, error.__traceback__))
    assert "ValueError: why" in str(shown["traceback"])
