"""The only caller of the demo's buttons: its own page, in a browser of this machine.

Three attacks are refused. Another machine calls: its address is not loopback. Another site's page
calls: its origin is not ours. A foreign name points to this machine: the host is not ours.
"""

from collections.abc import Mapping
from ipaddress import ip_address

from assay_shared.errors import Forbidden


def refuse_others(headers: Mapping[str, str], peer: str, port: int) -> None:
    """Check that a request is of the page that this machine serves at a port.

    Args:
        headers: of the request, by their names in lower case.
        peer: the address of the caller.

    Raises:
        Forbidden: it is not; names the header.
    """
    if not _is_loopback(peer):
        raise Forbidden(f"{peer:.60} is another machine", hint="open the page on this machine")
    host = headers.get("host", "").lower()
    if host not in (f"127.0.0.1:{port}", f"localhost:{port}"):
        raise Forbidden(f"{host!r:.80} is not the address of this page", field="host")
    origin = headers.get("origin", "").lower()
    if origin != f"http://{host}":
        raise Forbidden(f"a page of {origin!r:.80} may not ask for this", field="origin")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Forbidden("another site's page may not ask for this", field="sec-fetch-site")


def _is_loopback(peer: str) -> bool:
    try:
        return ip_address(peer).is_loopback
    except ValueError:
        return False
