"""`python -I guard.py COMMAND...`: runs a command and kills it when the guard's input ends.

For programs of others, because they do not tie themselves to their parent. When standard input
ends, the guard kills its whole session, including stopped processes and grandchildren. This module
imports nothing of Assay.
"""

import os
import signal
import subprocess
import sys
import threading


def main() -> None:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.exit(min(abs(child.wait()), 255))


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
