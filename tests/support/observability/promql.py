"""Metrics of a PromQL expression, and the labels it uses of each."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser

#: Labels that Prometheus itself gives to what it scrapes: on Kubernetes also where it found it.
ITS_OWN = frozenset({"job", "instance", "namespace", "release"})


class Used(NamedTuple):
    """A metric of an expression, with labels matched or grouped by."""

    name: str
    labels: frozenset[str]


def uses(expression: str) -> list[Used]:
    """Return every metric of an expression. Raises ValueError if it is not PromQL."""
    return list(_walk(promql_parser.parse(expression), frozenset()))


def _walk(node: Any, grouped: frozenset[str]) -> Iterator[Used]:
    """`grouped` are the labels kept by aggregations around the node."""
    if isinstance(node, promql_parser.VectorSelector):
        matched = {matcher.name for matcher in node.matchers.matchers}
        yield Used(node.name or "", frozenset(matched) | grouped)
        return
    if isinstance(node, promql_parser.AggregateExpr):
        kept = frozenset(node.modifier.labels) if node.modifier else frozenset()
        yield from _walk(node.expr, kept)
        return
    for part in _parts(node):
        yield from _walk(part, grouped)


def _parts(node: Any) -> Iterator[Any]:
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        part = getattr(node, name, None)
        if part is not None:
            yield part
    yield from getattr(node, "args", None) or ()
