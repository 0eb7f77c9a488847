"""Extracts the program from a completion, as SandboxFusion's judge does."""

import json
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from assay_sandbox.slot.program import extraction
from assay_shared.errors import InvalidInput
from assay_shared.types import ExecutionRequest, ExecutionResult, Limits, Status

_ALIASES = {
    "bash": "bash sh shell",
    "c": "c",
    "cpp": "cpp c++",
    "csharp": "csharp c#",
    "D": "d",
    "go": "go",
    "html": "html",
    "java": "java",
    "javascript": "javascript",
    "julia": "julia jl",
    "kotlin": "kotlin",
    "lua": "lua",
    "nodejs": "javascript js",
    "perl": "perl",
    "php": "php",
    "python": "python python3 py",
    "R": "r",
    "racket": "racket",
    "ruby": "ruby",
    "rust": "rust rs",
    "scala": "scala",
    "swift": "swift",
    "typescript": "typescript ts",
    "verilog": "verilog",
}
_FENCE = "```"
_FENCED, _OPEN, _UNFENCED = 30, 20, 10
_MAX_BLOCKS = 1000
_BLOCKS = "blocks.json"
_LIMITS = Limits(cpu_time_s=5.0, wall_time_s=15.0, memory_bytes=1024 * 2**20)


class ExtractedBlock(BaseModel):
    """A candidate program of a completion; the highest priority wins."""

    priority: int
    language: str
    code: str


_CODE_BLOCKS: TypeAdapter[list[ExtractedBlock]] = TypeAdapter(
    Annotated[list[ExtractedBlock], Field(max_length=_MAX_BLOCKS)]
)


def extract(completion: str, language: str) -> str:
    """Return the program: of the fenced blocks, the first in `language`, or else the first.

    Without such a block, it is the text after an unclosed fence. Without a fence, it is the text
    that resembles code. Otherwise the program is empty; an empty program is run like any other.
    """
    return choose(find_blocks(completion, language), language)


def choose(blocks: list[ExtractedBlock], language: str) -> str:
    """Return the code with the highest priority, preferably a block in `language`."""
    highest = max((block.priority for block in blocks), default=0)
    best = [block for block in blocks if block.priority == highest]
    tagged = (block.code for block in best if _is_in(language, block.language))
    return next(tagged, best[0].code if best else "")


def _is_in(language: str, tag: str) -> bool:
    tag = tag.strip()
    return tag == language or tag.lower() in _ALIASES.get(language, "").split()


def find_blocks(completion: str, language: str) -> list[ExtractedBlock]:
    """Return the first blocks of a completion, in time linear in its length."""
    blocks = list(islice(_fenced(completion.split("\n")), _MAX_BLOCKS))
    if not blocks:
        code = _extract_unfenced(completion, language)
        blocks = [ExtractedBlock(priority=_UNFENCED, language=language, code=code)] if code else []
    return blocks


def _fenced(lines: list[str]) -> Iterator[ExtractedBlock]:
    """Yield each closed block; if there is none, the block that is open to the end.

    A fence opens anywhere in a line. It closes at the start of a line, but not of the very next.
    """
    at, num_closed = 0, 0
    while at < len(lines) - 1:
        _, fence, tag = lines[at].partition(_FENCE)
        if not fence:
            at += 1
            continue
        closings = range(at + 2, len(lines))
        end = next((n for n in closings if lines[n].lstrip().startswith(_FENCE)), None)
        if end is None:
            if not num_closed:
                code = "\n".join(lines[at + 1 :])
                yield ExtractedBlock(priority=_OPEN, language=tag, code=code)
            return
        last = end - 1
        while last > at + 1 and not lines[last].strip():
            last -= 1
        yield ExtractedBlock(
            priority=_FENCED, language=tag, code="\n".join(lines[at + 1 : last + 1])
        )
        num_closed += 1
        lines[end] = lines[end].lstrip().removeprefix(_FENCE)
        at = end


def _extract_unfenced(completion: str, language: str) -> str:
    """Return the first Python function or class with the imports above it, or all bash lines."""
    lines = [line for line in completion.split("\n") if line.strip()]
    if language == "bash":
        return "\n".join(lines) + "\n"
    if language != "python":
        return ""
    for start, line in enumerate(lines):
        if not line.startswith(("def ", "class ")):
            continue
        end = start + 1
        while end < len(lines) and lines[end][0].isspace():
            end += 1
        if end == start + 1:
            continue
        while start and lines[start - 1].startswith(("import", "from", "#")):
            start -= 1
        return "\n".join(lines[start:end]) + "\n"
    return ""


@cache
def _driver() -> str:
    return Path(extraction.__file__).read_text()


async def extract_by(
    logic: str,
    completion: str,
    language: str,
    execute: Callable[[ExecutionRequest], Awaitable[ExecutionResult]],
) -> str:
    """Extract a program with the caller's own Python, run in a slot, and return it.

    Raises:
        InvalidInput: the caller's Python fails.
    """
    blocks = find_blocks(completion, language)
    given = {
        "completion": completion,
        "fenced": [block.model_dump() for block in blocks if block.priority == _FENCED],
    }
    request = ExecutionRequest(
        code=_driver(),
        files={
            "logic.py": logic.encode("utf-8", "backslashreplace"),
            "given.json": json.dumps(given).encode(),
        },
        fetch_files=(_BLOCKS,),
        limits=_LIMITS,
        profile="std",
    )
    result = await execute(request)
    if result.status is not Status.ACCEPTED:
        why = result.stderr[-400:].strip() or result.message
        raise InvalidInput(
            f"it does not run to its end: {why}", field="config.custom_extract_logic"
        )
    try:
        blocks += _CODE_BLOCKS.validate_json(result.files.get(_BLOCKS, b""))
    except ValidationError:
        raise InvalidInput(
            "it submits no list of code blocks", field="config.custom_extract_logic"
        ) from None
    return choose(blocks, language)
