"""`python -I guard.py COMMAND...`: a command that never outlives whoever holds this one's input.

For programs of others, which do not tie themselves to their parent. When standard input ends, the
whole session is killed, stopped processes and grandchildren included. Imports nothing of Assay.
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
