"""An OTLP collector: a real HTTP server that keeps its received spans."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from fastapi import FastAPI, Request, Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from assay_shared.service.server import bind
from tests.conftest import wait_until

Attributes = dict[str, str | int | float | bool]


@dataclass(frozen=True)
class SeenSpan:
    """A span, as it came."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: Attributes
    failed: bool


@dataclass
class Collector:
    """`url` is the value for ASSAY_OTLP_ENDPOINT."""

    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)

    def traces(self) -> dict[str, list[SeenSpan]]:
        found = defaultdict(list)
        for span in self.spans:
            found[span.trace].append(span)
        return found

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = str(_values(resource.resource.attributes)["service.name"])
            for scope in resource.scope_spans:
                self.spans += [
                    SeenSpan(
                        service,
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        _values(span.attributes),
                        span.status.code == 2,
                    )
                    for span in scope.spans
                ]


def _values(attributes: Iterable[KeyValue]) -> Attributes:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
    collector, app = Collector(), FastAPI()

    @app.post("/v1/traces")
    async def take(request: Request) -> Response:
        collector.take(await request.body())
        return Response(media_type="application/x-protobuf")

    listener = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the collector")
    collector.url = "http://{}:{}".format(*listener.getsockname())
    yield collector
    server.should_exit = True
    thread.join(timeout=30)
