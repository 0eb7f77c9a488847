"""Turns a request into a program ready to run. Compilers run in a slot; their output is cached."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from assay_sandbox.execution.checks import check_files
from assay_sandbox.execution.program import (
    Program,
    Records,
    data_files,
    encode,
    executables,
    status_of,
)
from assay_sandbox.execution.run import NOT_PICKED_UP
from assay_sandbox.execution.runner import Runner
from assay_sandbox.languages.language import Language, LanguageCommands
from assay_sandbox.languages.toolchain import Toolchain
from assay_shared.errors import SandboxFault
from assay_shared.runtime.single_flight import SingleFlight
from assay_shared.types import CaseResult, Compilation, ProgramRequest, Status

_OUTPUT_CHARACTERS = 20_000
#: A text above this is searched for names in a thread, not on the event loop.
_LARGE_CHARACTERS = 10_000


@dataclass(frozen=True)
class BuiltProgram:
    """The output of a compiler: its messages, and files unless it failed."""

    files: dict[str, bytes]
    compilation: Compilation

    @property
    def num_bytes(self) -> int:
        return sum(map(len, self.files.values())) + len(self.compilation.output)


class CompileFailed(Exception):
    """The text does not compile."""

    def __init__(self, compilation: Compilation) -> None:
        super().__init__(compilation.output)
        self.compilation = compilation

    @property
    def message(self) -> str:
        return self.compilation.output.strip()[:2000]

    @property
    def case_result(self) -> CaseResult:
        """Result of each of the program's cases."""
        return CaseResult(status=Status.COMPILE_ERROR, message=self.message)


class Compiler:
    """Builds programs, and caches compilers' output by last use, up to `cache_bytes`."""

    def __init__(
        self, runner: Runner, toolchain: Toolchain, cache_bytes: int, room_bytes: int
    ) -> None:
        """Run compilers with `runner`, in slots with folders of `room_bytes`."""
        self._runner = runner
        self._toolchain = toolchain
        self._cache_bytes = cache_bytes
        self._room_bytes = room_bytes
        self._cache: OrderedDict[str, BuiltProgram] = OrderedDict()
        self._num_cached_bytes = 0
        self._flights: SingleFlight[BuiltProgram] = SingleFlight()

    async def build(
        self, request: ProgramRequest, language: Language
    ) -> tuple[Program, Compilation | None]:
        """Return a program ready to run, and its compilation if the language has a compiler.

        Raises:
            CompileFailed: the text does not compile.
            InvalidInput: the files conflict by name, or are too large together.
            SandboxFault: the compiler could not be run.
        """
        if not language.run:
            check_files(request.files, self._room_bytes)
            return _in_harness(request, language), None
        cache = await self._toolchain.prepare(language)
        commands = await _fill_in(language, request, cache)
        check_files(request.files | {commands.source: encode(request.code)}, self._room_bytes)
        files = data_files(request.files)
        if not language.compile:
            files |= data_files({commands.source: encode(commands.text)})
            return Program(language, request.limits, commands.run, files=files), None
        made = await self._make(language, commands, request)
        if not made.compilation.succeeded:
            raise CompileFailed(made.compilation)
        files |= executables(made.files)
        return Program(language, request.limits, commands.run, files=files), made.compilation

    async def _make(
        self, language: Language, commands: LanguageCommands, request: ProgramRequest
    ) -> BuiltProgram:
        key = _key(commands, request)
        if key in self._cache:
            self._cache.move_to_end(key)
            made = self._cache[key]
            return BuiltProgram(made.files, made.compilation.model_copy(update={"cached": True}))
        return await self._flights.run(key, lambda: self._compile(key, language, commands, request))

    async def _compile(
        self, key: str, language: Language, commands: LanguageCommands, request: ProgramRequest
    ) -> BuiltProgram:
        sources = data_files(request.files | {commands.source: encode(commands.text)})
        compiler = Program(language, request.compile_limits, commands.compile, files=sources)
        records = Records()
        plan = compiler.plan(fetch=language.makes)
        ending = await self._runner.play(plan, lambda _, line: records.take(line))
        status, message = status_of(ending, records, compiler)
        files = {name: data for name, data in ending.files.items() if isinstance(data, bytes)}
        if any(data == NOT_PICKED_UP for data in ending.files.values() if isinstance(data, str)):
            raise SandboxFault("what a compiler made could not be picked up in time")
        if status is None and not files:
            status, message = Status.COMPILE_ERROR, "the compiler made nothing"
        said = (ending.stdout + ending.stderr).decode(errors="replace")[:_OUTPUT_CHARACTERS]
        if status not in (None, Status.RUNTIME_ERROR):
            said = f"{message}\n{said}"
        compilation = Compilation(
            succeeded=status is None,
            output=said or message,
            wall_time_s=ending.wall_time_s,
            out_of_time=status is Status.TIME_LIMIT,
        )
        made = BuiltProgram(files, compilation)
        if ending.exit_code >= 0 and not (ending.out_of_time or ending.out_of_memory):
            self._keep(key, made)  # a compiler ended by a limit may succeed the next time
        return made

    def _keep(self, key: str, made: BuiltProgram) -> None:
        self._cache[key] = made
        self._num_cached_bytes += made.num_bytes
        while self._num_cached_bytes > self._cache_bytes:
            _, oldest = self._cache.popitem(last=False)
            self._num_cached_bytes -= oldest.num_bytes


async def _fill_in(language: Language, request: ProgramRequest, cache: str) -> LanguageCommands:
    """Return the commands for a program; use a thread if its text is large."""
    arguments = (request.code, cache, request.limits.memory_bytes)
    if len(request.code) > _LARGE_CHARACTERS:
        return await asyncio.to_thread(language.commands, *arguments)
    return language.commands(*arguments)


def _in_harness(request: ProgramRequest, language: Language) -> Program:
    files, text = data_files(request.files), request.code
    if language.driver:
        files |= data_files({language.source: encode(text)})
        text = language.driver
    return Program(language, request.limits, text=text, files=files)


def _key(commands: LanguageCommands, request: ProgramRequest) -> str:
    """Return a hash of text, flags and toolchain; the latter counts by its prepared folder."""
    parts = (
        request.language,
        request.code,
        sorted(request.files.items()),
        request.compile_limits,
        commands,
    )
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
