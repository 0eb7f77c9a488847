"""Each part of a run is a span below the part around it, also in parallel branches."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from assay_reward.workflows.language.tree import Branch, FieldOf, Parallel, Return
from assay_shared.errors import ExecutorFault
from assay_shared.telemetry import tracing
from tests.support.workflows import DIRECT, FakeExecutor, call, play, workflow


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing._Active, "tracer", provider.get_tracer("test"))
    return exporter


def path_of(one: ReadableSpan, spans: tuple[ReadableSpan, ...]) -> str:
    known = {other.context.span_id: other for other in spans if other.context}
    name = one.name.removeprefix("workflow.")
    return name if one.parent is None else f"{path_of(known[one.parent.span_id], spans)}/{name}"


async def test_spans_have_the_shape_of_the_trace(spans: InMemorySpanExporter) -> None:
    branches = tuple(Branch(name, (), call("AnswerGenerate", input="problem")) for name in "ab")
    run = await play(workflow(Parallel(branches), Return(FieldOf("a", "answer"))))
    assert run.answer is not None
    found = spans.get_finished_spans()
    paths = sorted(path_of(one, found) for one in found)
    branch = ["run/branch", "run/branch/operator", "run/branch/operator/model"]
    assert paths == sorted(["run", *branch, *branch])
    (model, *_) = [one for one in found if one.name == "workflow.model"]
    assert model.attributes is not None
    assert model.attributes["assay.tokens"] == 15


async def test_a_failure_marks_its_spans(spans: InMemorySpanExporter) -> None:
    await play(DIRECT, FakeExecutor(lambda _: ExecutorFault("planted")))
    found = {one.name: one.status for one in spans.get_finished_spans()}
    assert {status.is_ok for status in found.values()} == {False}
    assert "planted" in (found["workflow.model"].description or "")
