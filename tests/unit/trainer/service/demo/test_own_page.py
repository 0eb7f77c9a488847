"""Only the demo's own page on this machine may press its buttons."""

import pytest

from assay_shared.errors import Forbidden
from assay_trainer.service.demo.own_page import refuse_others

OWN = {"host": "127.0.0.1:9000", "origin": "http://127.0.0.1:9000"}
LOCAL = {"host": "localhost:9000", "origin": "http://localhost:9000"}


@pytest.mark.parametrize("headers", [OWN, LOCAL, OWN | {"sec-fetch-site": "same-origin"}])
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.1", "::1"])
def test_the_own_page_may_ask(headers: dict[str, str], peer: str) -> None:
    refuse_others(headers, peer, 9000)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"host": "evil.example:9000"}, "host"),
        ({"host": "127.0.0.1.evil.example:9000"}, "host"),
        ({"host": "127.0.0.1:9001"}, "host"),
        ({"host": "127.0.0.1"}, "host"),
        ({"host": ""}, "host"),
        ({"host": "evil.example:9000", "origin": "http://evil.example:9000"}, "host"),
        ({"origin": "http://evil.example"}, "origin"),
        ({"origin": "http://localhost:9000"}, "origin"),
        ({"origin": "http://127.0.0.1:9001"}, "origin"),
        ({"origin": "https://127.0.0.1:9000"}, "origin"),
        ({"origin": "null"}, "origin"),
        ({"origin": ""}, "origin"),
        ({"sec-fetch-site": "cross-site"}, "sec-fetch-site"),
        ({"sec-fetch-site": "same-site"}, "sec-fetch-site"),
        ({"sec-fetch-site": "none"}, "sec-fetch-site"),
    ],
)
def test_any_other_page_is_refused(changes: dict[str, str], field: str) -> None:
    with pytest.raises(Forbidden) as refused:
        refuse_others(OWN | changes, "127.0.0.1", 9000)
    assert refused.value.field == field


@pytest.mark.parametrize("peer", ["10.0.0.7", "0.0.0.0", "2001:db8::1", "localhost", ""])
def test_another_machine_is_refused(peer: str) -> None:
    with pytest.raises(Forbidden, match="another machine"):
        refuse_others(OWN, peer, 9000)
