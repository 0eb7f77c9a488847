"""Ids of work: sent, accepted, and their senders."""

import logging
import time

import pytest

from assay_shared.settings.environment import ServiceSettings
from assay_shared.telemetry import propagation, tracing
from assay_shared.telemetry.context import current_log_fields, log_fields, note_log_fields
from assay_shared.telemetry.logs import JsonFormatter


def test_ids_arrive_as_they_were_sent() -> None:
    group = "run/3/a task, with=signs;ü/v2"
    with log_fields(run="r", step=4, group=group, sample=0, colour="blue"):
        headers = propagation.inject()
    assert headers["baggage"].isascii()
    assert "colour" not in headers["baggage"], "only the ids of the work go along"
    with propagation.extract(headers["baggage"]):
        assert current_log_fields() == {"run": "r", "step": 4, "group": group, "sample": 0}
    assert current_log_fields() == {}
    assert propagation.inject() == {}


@pytest.mark.parametrize(
    ("baggage", "expected"),
    [
        (None, {}),
        ("", {}),
        ("user=alice, run=r ;ttl=3,=,group", {"run": "r"}),
        ("request_id=mine,level=debug,message=x", {}),
        ("step=-1,sample=two", {"step": "-1", "sample": "two"}),
        ("run=" + "x" * 5000, {"run": "x" * 256}),
        ("," * 5000 + "run=late", {}),
        ("run=%0A%22%7D", {"run": '\n"}'}),
        ("run=%FF%FE", {"run": "\ufffd\ufffd"}),
    ],
)
def test_of_foreign_baggage_only_known_ids_are_taken(
    baggage: str | None, expected: dict[str, object]
) -> None:
    with propagation.extract(baggage):
        assert current_log_fields() == expected


def test_a_log_line_stays_one_line_whatever_came_along() -> None:
    with propagation.extract("run=%0A%22%7D"):
        line = JsonFormatter("s").format(logging.makeLogRecord({"msg": "m"}))
    assert "\n" not in line


def test_a_field_can_be_noted_for_the_rest_and_taken_away() -> None:
    with log_fields(run="r", sample=1):
        with log_fields(sample=None):
            assert current_log_fields() == {"run": "r"}
        note_log_fields(step=2)
        assert current_log_fields() == {"run": "r", "sample": 1, "step": 2}
    assert current_log_fields() == {}


def test_without_an_endpoint_nothing_is_traced_and_opentelemetry_stays_away() -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom assay_shared.telemetry import propagation, tracing\n"
        "from assay_shared.settings.environment import ServiceSettings\n"
        "tracing.set_up_tracing('s', ServiceSettings())\n"
        "with tracing.span('work', n=1) as one: one.note(m=2)\n"
        "tracing.begin('work').end()\n"
        "assert propagation.inject() == {}\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_collector_that_is_away_holds_nothing_up() -> None:
    tracing.set_up_tracing("s", ServiceSettings(otlp_endpoint="http://127.0.0.1:1"))
    try:
        started = time.monotonic()
        with tracing.span("work"), tracing.span("more work"):
            assert "traceparent" in propagation.inject()
        assert time.monotonic() - started < 5
    finally:
        tracing.end_tracing()
    assert not tracing.is_on()
