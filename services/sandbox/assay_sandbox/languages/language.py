"""A language of programs: the commands to compile and run a program in it.

In commands, {cache} is the folder filled by `prepare`, {memory_mb} the program's memory limit,
{source} the name of its file, and {entry} the name of its entry point.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: Placeholder in a command for the program's memory limit.
MEMORY_MB = "{memory_mb}"
#: The command to run a compiler's output.
PROGRAM = ("./main",)


@dataclass(frozen=True)
class Language:
    """A language: the steps from a source file to a running program.

    With an empty `run`, the text (or `driver`) runs in the harness's own interpreter.
    """

    name: str
    source: str
    run: tuple[str, ...]
    #: Prints the version on its first line; if it does not run, the host lacks the language.
    version: tuple[str, ...]
    #: Compiles the source in a slot; exit code 0 on success.
    compile: tuple[str, ...] = ()
    #: Patterns of the compiled files: all the files that a run needs.
    makes: tuple[str, ...] = ("main",)
    #: Fills the current folder with files for `compile`, once on a host, outside of slots.
    prepare: tuple[str, ...] = ()
    #: Memory of its runtime, in addition to the program's own memory.
    runtime_bytes: int = 0
    #: Found in standard error or output after a failed allocation, or in standard error if the
    #: text does not parse and no line of it was run.
    out_of_memory: re.Pattern[bytes] | None = None
    does_not_parse: re.Pattern[bytes] | None = None
    #: Returns the names of the source file and of the entry point, if the text decides them.
    names: Callable[[str], tuple[str, str]] | None = None
    #: Completes the text of a program before it is written to its file.
    complete: Callable[[str], str] | None = None
    #: A Python text that runs the file in the harness's own interpreter.
    driver: str = ""
    #: The profile of slots to run in, if the request must not choose it.
    profile: str = ""
    #: Files and folders of the host for its tools, in addition to those shown in every slot.
    needs: tuple[str, ...] = ()
    #: Other tools and files that the host must have for it.
    tools: tuple[str, ...] = ()

    def commands(self, code: str, cache: str, memory_bytes: int) -> "LanguageCommands":
        """Return the commands for a program."""
        source, entry = self.names(code) if self.names is not None else (self.source, "main")
        values = {
            "{cache}": cache,
            MEMORY_MB: str(memory_bytes // 2**20),
            "{source}": source,
            "{entry}": entry,
        }
        text = code if self.complete is None else self.complete(code)
        return LanguageCommands(source, text, _fill(self.compile, values), _fill(self.run, values))


@dataclass(frozen=True)
class LanguageCommands:
    """A language's commands with all names filled in, and the text of its source file."""

    source: str
    text: str
    compile: tuple[str, ...]
    run: tuple[str, ...]


def _fill(command: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    filled = []
    for word in command:
        for name, value in values.items():
            word = word.replace(name, value)
        filled.append(word)
    return tuple(filled)


def shell(script: str) -> tuple[str, ...]:
    """Return a command to run a shell script up to its first failing command."""
    return ("sh", "-ec", script)
