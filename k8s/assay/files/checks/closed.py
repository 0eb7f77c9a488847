"""Whether none of ADDRESSES (host:port) can be reached: the cluster enforces the policies."""

import os
import socket
import sys

reached = []
for address in os.environ["ADDRESSES"].split():
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=float(os.environ.get("WAIT_S", "3")))
    except OSError as error:
        print(f"{address}: {error}")
    else:
        reached.append(address)
if reached:
    sys.exit("reached, though no policy allows it: " + ", ".join(reached))
