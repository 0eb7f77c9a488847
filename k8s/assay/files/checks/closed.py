"""Whether none of ADDRESSES (host:port) can be reached: the cluster enforces the policies.

Silence alone shows nothing: a name that does not resolve and a port where nobody listens look like
a closed one. So REACHABLE, which policies allow, must be reached first, and each name of ADDRESSES
must resolve. Exit code 1: an address was reached. 2: nothing can be concluded.
"""

import os
import socket
import sys

_WAIT_S = float(os.environ.get("WAIT_S", "3"))


def reach(address: str) -> str:
    """Return `reached`, `unknown name`, or why the connection failed."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError:
        return "unknown name"
    try:
        socket.create_connection(found[0][4][:2], timeout=_WAIT_S).close()
    except OSError as error:
        return str(error)
    return "reached"


allowed = {address: reach(address) for address in os.environ.get("REACHABLE", "").split()}
closed = {address: reach(address) for address in os.environ["ADDRESSES"].split()}
#: Outside the cluster a firewall looks like a policy: these are shown, and prove nothing.
outside = {address: reach(address) for address in os.environ.get("OUTSIDE", "").split()}
for address, result in (allowed | closed | outside).items():
    print(f"{address}: {result}")
reached = [address for address, result in (closed | outside).items() if result == "reached"]
if reached:
    sys.exit("reached, though no policy allows it: " + ", ".join(reached))
doubts = [f"{address}: {result}" for address, result in allowed.items() if result != "reached"]
doubts += [f"{address}: {result}" for address, result in closed.items() if "unknown" in result]
if doubts:
    print("nothing can be concluded: " + ", ".join(doubts), file=sys.stderr)
    sys.exit(2)
if outside:
    print("closed to this pod or by a firewall, which is not told apart: " + ", ".join(outside))
