"""Permitted connections, computed from rendered NetworkPolicies as Kubernetes defines them.

A connection is let through if the sender's egress and the receiver's ingress both allow it. A pod
without a policy for a direction is open in it; else the union of the policies' rules counts.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from tests.support.chart.rendering import NAMESPACE, Rendered

Policy = Mapping[str, Any]
Rule = Mapping[str, Any]


class Port(NamedTuple):
    protocol: str
    number: int


@dataclass(frozen=True)
class Place:
    """A pod, or an address outside the cluster without labels and policies."""

    name: str
    address: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def namespace_labels(self) -> dict[str, str]:
        return {"kubernetes.io/metadata.name": self.namespace or ""}


class Edge(NamedTuple):
    sender: str
    receiver: str
    port: int


def pods_of(rendered: Rendered) -> list[Place]:
    """Return a pod of each workload, under the name of its component."""
    places = []
    for number, (name, pod) in enumerate(rendered.pods()):
        labels = pod["metadata"]["labels"]
        short = name.removeprefix("assay-")
        places.append(Place(short, f"10.244.0.{number + 1}", NAMESPACE, labels))
    return places


def edges(
    rendered: Rendered, senders: Iterable[Place], receivers: Sequence[Place], ports: Iterable[Port]
) -> set[Edge]:
    """Return every permitted connection, except a pod's to itself."""
    policies, ports = rendered.of_kind("NetworkPolicy"), list(ports)
    ingress = [(receiver, _rules(policies, "Ingress", receiver)) for receiver in receivers]
    found = set()
    for sender in senders:
        egress = _rules(policies, "Egress", sender)
        for (receiver, into), port in product(ingress, ports):
            if (
                sender.name != receiver.name
                and _allow(egress, "to", receiver, port)
                and _allow(into, "from", sender, port)
            ):
                found.add(Edge(sender.name, receiver.name, port.number))
    return found


def _rules(policies: Sequence[Policy], direction: str, subject: Place) -> list[Rule] | None:
    """Return the rules of a pod's policies in a direction; None if it is open."""
    mine = [
        policy["spec"]
        for policy in policies
        if direction in policy["spec"]["policyTypes"]
        and subject.namespace == policy["metadata"]["namespace"]
        and _selects(policy["spec"]["podSelector"], subject.labels)
    ]
    return [rule for spec in mine for rule in spec.get(direction.lower()) or ()] if mine else None


def _allow(rules: list[Rule] | None, end: str, other: Place, port: Port) -> bool:
    return rules is None or any(_rule_allows(rule, end, other, port) for rule in rules)


def _rule_allows(rule: Rule, end: str, other: Place, port: Port) -> bool:
    peers, ports = rule.get(end), rule.get("ports")
    return (not peers or any(_is_peer(peer, other) for peer in peers)) and (
        not ports or any(_is_port(item, port) for item in ports)
    )


def _is_port(item: Mapping[str, Any], port: Port) -> bool:
    if item.get("protocol", "TCP") != port.protocol:
        return False
    if "port" not in item:
        return True
    return bool(item["port"] <= port.number <= item.get("endPort", item["port"]))


def _is_peer(peer: Mapping[str, Any], other: Place) -> bool:
    if "ipBlock" in peer:  # some networks match pods by it as well: counted as allowed
        return _in_block(peer["ipBlock"], other.address)
    if other.namespace is None:
        return False
    if "namespaceSelector" in peer:
        if not _selects(peer["namespaceSelector"], other.namespace_labels):
            return False
    elif other.namespace != NAMESPACE:
        return False
    return _selects(peer.get("podSelector", {}), other.labels)


def _in_block(block: Mapping[str, Any], address: str) -> bool:
    found = ipaddress.ip_address(address)

    def within(cidr: str) -> bool:
        network = ipaddress.ip_network(cidr)
        return network.version == found.version and found in network

    return within(block["cidr"]) and not any(map(within, block.get("except", ())))


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(item, labels) for item in selector.get("matchExpressions", ()))


def _holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(item["key"])
    match item["operator"]:
        case "In":
            return value in item["values"]
        case "NotIn":
            return value not in item["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(item["operator"])
