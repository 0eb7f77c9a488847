"""Text of a program in a slot: it runs the cells of a notebook. No server runs this file.

It reads `cells.json` and writes `results.json`, both in the current folder. A cell's output is
taken from descriptors 1 and 2, to include the output of its subprocesses. The cells' own code
shares this process and can forge its results, harming only itself.
"""

import ast
import asyncio
import base64
import inspect
import io
import json
import linecache
import os
import signal
import sys
import traceback
from contextlib import suppress
from types import CodeType
from typing import Any

MAX_STREAM_BYTES = 2**20
MAX_RESULT_BYTES = 16 * 2**20
RICH = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
}


class CellTimeout(BaseException):
    """A cell has used up its time. Not an Exception, so no cell catches it by chance."""


def ring(number: int, frame: object) -> None:
    """End the running cell."""
    raise CellTimeout


class Stream:
    """A standard stream of the cells: a file, read and emptied after each cell."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.file = os.memfd_create("stream")
        os.dup2(self.file, fd)

    def take(self) -> str:
        """Return the text written since the last call."""
        text = os.pread(self.file, MAX_STREAM_BYTES, 0)
        os.ftruncate(self.file, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        return text.decode("utf-8", "replace")


def bundle(value: Any) -> dict[str, str]:
    """Return the displayed forms of a value: text, and any richer forms."""
    shown = {"text/plain": repr(value)}
    for kind, name in RICH.items():
        method = getattr(type(value), name, None)
        if method is None:
            continue
        data: Any = None
        with suppress(Exception):
            data = method(value)
        if isinstance(data, tuple) and data:
            data = data[0]
        if isinstance(data, bytes):
            data = base64.b64encode(data).decode()
        if isinstance(data, str):
            shown[kind] = data
    return shown


class Notebook:
    """The names shared by the cells, and the values they have displayed."""

    def __init__(self, names: dict[str, Any], cell_timeout_s: float) -> None:
        self.names = names
        self.cell_timeout_s = cell_timeout_s
        self.displayed: list[dict[str, str]] = []
        self.number = 0
        self.streams = [Stream(fd) for fd in (1, 2)]
        names["display"] = self.display
        os.environ.update(MPLBACKEND="agg", MPLCONFIGDIR=os.environ.get("TMPDIR", "/tmp"))

    def display(self, *values: Any, **unused: Any) -> None:
        """Display values. Cells may call this."""
        for value in values:
            self.displayed.append(bundle(value))

    def show_figures(self) -> None:
        """Display the open figures, and close them."""
        plots = sys.modules.get("matplotlib.pyplot")
        if plots is None:
            return
        plots.show = lambda *unused, **more: self.show_figures()  # type: ignore[attr-defined]
        for number in plots.get_fignums():
            figure = plots.figure(number)
            image = io.BytesIO()
            figure.savefig(image, format="png", bbox_inches="tight")
            picture = base64.b64encode(image.getvalue()).decode() + "\n"
            self.displayed.append({"text/plain": repr(figure), "image/png": picture})
        plots.close("all")

    def run(self, source: str) -> dict[str, Any]:
        """Run a cell; return its output, displayed values, error and status, as in Jupyter."""
        self.number += 1
        self.displayed = []
        error: list[dict[str, Any]] = []
        status = "ok"
        self.show_figures()
        try:
            signal.setitimer(signal.ITIMER_REAL, self.cell_timeout_s)
            try:
                self.execute(source)
                self.show_figures()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException as raised:
            status, error = "error", [describe(raised)]
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        stdout, stderr = (stream.take() for stream in self.streams)
        return {
            "stdout": stdout,
            "stderr": stderr,
            "display": self.displayed,
            "error": error,
            "status": status,
        }

    def execute(self, source: str) -> None:
        """Run a cell, and display the value of its last expression."""
        name = f"<cell {self.number}>"
        lines = [line for line in source.splitlines(True) if not line.startswith("%matplotlib")]
        source = "".join(lines)
        linecache.cache[name] = (len(source), None, lines, name)
        tree = ast.parse(source, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
            last = ast.Expression(tree.body[-1].value)
            del tree.body[-1]
        self.evaluate(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True))
        if last is not None:
            value = self.evaluate(compile(last, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True))
            if value is not None:
                self.names["_"] = value
                self.display(value)

    def evaluate(self, code: CodeType) -> Any:
        """Return the value of compiled code, and await it if necessary."""
        value = eval(code, self.names)
        if code.co_flags & inspect.CO_COROUTINE:
            return asyncio.get_event_loop_policy().get_event_loop().run_until_complete(value)
        return value


def describe(error: BaseException) -> dict[str, Any]:
    """Return an error as Jupyter does, without the frames of this file."""
    frames = error.__traceback__
    while frames is not None and not frames.tb_frame.f_code.co_filename.startswith("<cell "):
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error.with_traceback(frames), frames)
    kind = type(error).__name__
    return {"ename": kind, "evalue": str(error), "traceback": "".join(lines).splitlines()}


def main() -> None:
    """Run the cells in a separate `__main__` module."""
    module = type(sys)("__main__")
    with open("cells.json") as file:
        wanted = json.load(file)
    os.unlink("cells.json")
    sys.modules["__main__"] = module
    signal.signal(signal.SIGALRM, ring)
    notebook = Notebook(module.__dict__, wanted["cell_timeout"])
    results: list[str] = []
    size = 0
    for cell in wanted["cells"]:
        text = json.dumps(notebook.run(cell))
        size += len(text)
        if size > MAX_RESULT_BYTES:
            break
        results.append(text)
    with open("results.json", "w") as file:
        file.write(f"[{','.join(results)}]")


if __name__ == "__main__":
    main()
