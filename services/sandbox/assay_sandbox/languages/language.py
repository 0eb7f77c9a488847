"""What a language is to the sandbox: the commands that compile and run a program.

In commands, {cache} is the folder that `prepare` filled, {memory_mb} the program's memory limit,
and {source} and {entry} the names of its file and of what is run in it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: Stands for the memory limit of a program in a command.
MEMORY_MB = "{memory_mb}"
#: Runs what a compiler made.
PROGRAM = ("./main",)


@dataclass(frozen=True)
class Language:
    """How a source file becomes a running program.

    With an empty `run`, the text (or `driver`) runs in the harness's own interpreter.
    """

    name: str
    source: str
    run: tuple[str, ...]
    #: The host lacks the language where this does not run; the first line printed is its version.
    version: tuple[str, ...]
    #: Makes files out of the source, in a slot; exit code 0 where it is a program.
    compile: tuple[str, ...] = ()
    #: Patterns of the files that are made, all that a run needs.
    makes: tuple[str, ...] = ("main",)
    #: Fills the current folder with what `compile` reads, once on a host, outside of slots.
    prepare: tuple[str, ...] = ()
    #: What its runtime takes beside the program's own memory.
    runtime_bytes: int = 0
    #: What standard error or output says where memory was refused, or where no line was run.
    out_of_memory: re.Pattern[bytes] | None = None
    does_not_parse: re.Pattern[bytes] | None = None
    #: The names of the source file and of the entry point, where the text decides them.
    names: Callable[[str], tuple[str, str]] | None = None
    #: Completes the text of a program before it is written to its file.
    complete: Callable[[str], str] | None = None
    #: A Python text that runs the file in the harness's own interpreter.
    driver: str = ""
    #: The profile of slots that it runs in, where it is not the request's to choose.
    profile: str = ""
    #: Files and folders of the host that its tools read, beside those that every slot shows.
    needs: tuple[str, ...] = ()
    #: Other tools, and files, that the host must have for it.
    tools: tuple[str, ...] = ()

    def commands(self, code: str, cache: str, memory_bytes: int) -> "LanguageCommands":
        """Return the commands for one program."""
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
    """Return a command that runs a shell script up to the first command that fails."""
    return ("sh", "-ec", script)
