"""A stateful interpreter in a slot: it runs the cells of a session in turn.

The server writes commands to a socket, each a length and a marshalled dictionary. For each command
it reads a length and a JSON object, and after the object of a requested file, a length and the
file's content. The session's own code shares this process and can forge any of it, harming only
itself.
"""

import ast
import json
import linecache
import marshal
import os
import resource
import signal
import socket
import struct
import time
from typing import Any

from assay_sandbox.slot.program import ending, files, harness

LENGTH = struct.Struct("!I")
_MAX_RESULT = 20_000


class LimitReached(BaseException):
    """A cell has used up its time. Not an Exception, so no cell catches it by chance."""


class Interpreter:
    """The session's names, and the connection to the server."""

    def __init__(self, plan: dict[str, Any], channel_fd: int) -> None:
        self.limits = plan["limits"]
        self.channel = socket.socket(fileno=channel_fd)
        self.names = harness.become_main(None, [""])
        self.num_cells = 0
        self.pid = os.getpid()
        self.life_cpu_s = resource.getrlimit(resource.RLIMIT_CPU)[1]
        self.is_timed = False
        self.cpu_until_s = 0.0
        for number in (signal.SIGALRM, signal.SIGXCPU):
            signal.signal(number, self.reach_limit)

    def serve(self) -> None:
        """Serve commands until the server closes the socket."""
        while True:
            command = self.receive()
            if command is None:
                return
            content = b""
            try:
                if command["do"] == "run":
                    reply = self.run_cell(command["code"])
                elif command["do"] == "put":
                    files.put({command["name"]: (command["content"], 0o644)})
                    reply = {}
                else:
                    found = files.pick_up([command["name"]], command["max_bytes"])
                    got = found.get(command["plain"], "there is no such file")
                    reply = {"refused": got} if isinstance(got, str) else {}
                    content = b"" if isinstance(got, str) else got
            except OSError as error:
                reply = {"refused": harness.describe(error)}
            self.send(json.dumps(reply).encode())
            if command["do"] == "get":
                self.send(content)

    def receive(self) -> dict[str, Any] | None:
        length = self.read(LENGTH.size)
        if not length:
            return None
        return dict(marshal.loads(self.read(LENGTH.unpack(length)[0])))

    def read(self, num_bytes: int) -> bytes:
        parts = []
        while num_bytes:
            part = self.channel.recv(min(num_bytes, 2**20))
            if not part:
                return b""
            parts.append(part)
            num_bytes -= len(part)
        return b"".join(parts)

    def send(self, content: bytes) -> None:
        self.channel.sendall(LENGTH.pack(len(content)) + content)

    def run_cell(self, code: str) -> dict[str, Any]:
        """Run a cell; return its outcome, with the value of its last expression as text."""
        self.num_cells += 1
        name = f"cell-{self.num_cells}"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        started_s = time.process_time()
        status, message, result = "accepted", "", None
        try:
            # Both clocks may fire, the CPU clock each second: past this block they must not raise.
            try:
                self.is_timed = True
                self.start_clocks(started_s)
                result = self.execute(code, name)
            finally:
                self.is_timed = False
        except LimitReached:
            status, message = "time_limit", "the cell has used up its time"
        except MemoryError:
            status, message = "memory_limit", "out of memory"
        except SystemExit as error:
            if ending.exit_status(error):
                status, message = "runtime_error", harness.describe(error)
        except SyntaxError as error:
            here = error.filename == name and error.__traceback__ is not None
            status = "syntax_error" if here else "runtime_error"
            message = harness.describe(error)
            ending.report(error)
        except BaseException as error:
            status, message = "runtime_error", harness.describe(error)
            ending.report(error)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        ending.flush_all()
        if os.getpid() != self.pid:
            os._exit(status != "accepted")  # a fork: the session itself answers
        took_s = time.process_time() - started_s
        texts = {"status": status, "message": _clean(message), "result": result and _clean(result)}
        return texts | {"cpu_time_s": took_s}

    def start_clocks(self, started_s: float) -> None:
        """Start the CPU clock and the wall clock. Both raise in the cell, and its names stay."""
        self.cpu_until_s = started_s + self.limits["cpu_time_s"]
        soft = min(harness.round_up(self.cpu_until_s), self.life_cpu_s)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, self.life_cpu_s))
        signal.setitimer(signal.ITIMER_REAL, self.limits["wall_time_s"])

    def reach_limit(self, number: int, frame: object) -> None:
        if number == signal.SIGXCPU and time.process_time() < self.cpu_until_s:
            return  # the kernel counts whole ticks, maybe too many; it signals again each second
        if self.is_timed:
            raise LimitReached

    def execute(self, code: str, name: str) -> str | None:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec", dont_inherit=True), self.names)
        if not isinstance(last, ast.Expr):
            return None
        expression = ast.Expression(last.value)
        value = eval(compile(expression, name, "eval", dont_inherit=True), self.names)
        return None if value is None else repr(value)[:_MAX_RESULT]


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def run(plan: dict[str, Any], record_fd: int, channel_fd: int) -> int:
    """Run a session; return its exit status."""
    # A cgroup counts the whole tree's memory, and kills: by this limit a cell gets an error first.
    memory_bytes = int(plan["limits"]["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    os.write(record_fd, b"begun\n")
    Interpreter(plan, channel_fd).serve()
    return 0
