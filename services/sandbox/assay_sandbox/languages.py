"""Which languages there are: adding one is one row.

In commands, {cache} is the folder that `prepare` filled, {memory_mb} the program's memory limit,
and {source} and {entry} the names of its file and of what is run in it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assay_shared.errors import InvalidInput

_MEMORY_MB = "{memory_mb}"
_PROGRAM = ("./main",)


@dataclass(frozen=True)
class Language:
    """How a source file becomes a running program.

    An empty `run` means: in the harness's own interpreter.
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

    def commands(self, code: str, cache: str, memory_bytes: int) -> "Commands":
        """The commands for one program."""
        source, entry = self.names(code) if self.names is not None else (self.source, "main")
        values = {
            "{cache}": cache,
            _MEMORY_MB: str(memory_bytes // 2**20),
            "{source}": source,
            "{entry}": entry,
        }
        return Commands(source, _fill(self.compile, values), _fill(self.run, values))


@dataclass(frozen=True)
class Commands:
    """A language's commands with all names filled in."""

    source: str
    compile: tuple[str, ...]
    run: tuple[str, ...]


def _fill(command: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    filled = []
    for word in command:
        for name, value in values.items():
            word = word.replace(name, value)
        filled.append(word)
    return tuple(filled)


def _shell(script: str) -> tuple[str, ...]:
    return ("sh", "-ec", script)


_JAVA_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"""(?:\\.|.)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
)
_JAVA_PART = re.compile(
    r"(?P<public>\bpublic\s+(?:(?:final|abstract|sealed|strictfp)\s+)*)?"
    r"\b(?:class|record|enum|interface)\s+(?P<name>\w+)"
    r"|(?P<brace>[{}])|(?P<main>\bvoid\s+main\s*\()"
)
_JAVA_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)


def java_names(code: str) -> tuple[str, str]:
    """The file that javac wants the text in, and the class that has `main`."""
    code = _JAVA_NOISE.sub(" ", code)
    public: str | None = None
    entry: str | None = None
    declared: str | None = None
    around: list[str | None] = []
    for part in _JAVA_PART.finditer(code):
        if part["name"]:
            declared = part["name"]
            public = public or (declared if part["public"] and not around else None)
        elif part["main"]:
            entry = entry or "$".join(name for name in around if name)
        elif part["brace"] == "{":
            around.append(declared)
            declared = None
        elif around:
            around.pop()
    entry = entry or public or "Main"
    package = _JAVA_PACKAGE.search(code)
    prefix = f"{package.group(1)}." if package else ""
    return f"{public or entry.partition('$')[0]}.java", prefix + entry


# The text is only stripped of its types, as every runner of TypeScript does; tsc would also ask for
# declarations of all that a program uses.
_STRIP_TYPES = """
const ts = require('typescript'), fs = require('fs');
const result = ts.transpileModule(fs.readFileSync('main.ts', 'utf8'), {
  fileName: 'main.ts', reportDiagnostics: true,
  compilerOptions: {target: 'ES2022', module: 'CommonJS', esModuleInterop: true},
});
fs.writeFileSync('main.js', result.outputText);
for (const found of result.diagnostics) {
  const {line} = found.file.getLineAndCharacterOfPosition(found.start);
  const text = ts.flattenDiagnosticMessageText(found.messageText, '\\n');
  console.error(`main.ts:${line + 1}: ${text}`);
  process.exitCode = 1;
}
"""
_NODE_MODULES = "/usr/local/lib/node_modules:/usr/lib/node_modules:/usr/share/nodejs"
_NODE = ("node", "--max-old-space-size={memory_mb}", "--stack-size=50000", "main.js")
_NODE_FULL = re.compile(rb"heap out of memory|RangeError: (?:Array buffer|Invalid string)")
_NODE_REFUSED = re.compile(rb"SyntaxError: [^\n]*\n\s+at (?:wrapSafe|internalCompileFunction)\b")
_JVM = ("-Xms16m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_CPP_FLAGS = "-O2 -std=c++{standard} -pipe"
#: A header of its own name that includes the system's: compiled, it is read in its place.
_CPP_PREPARE = (
    "mkdir bits; echo '#include_next <bits/stdc++.h>' > bits/stdc++.h; "
    "g++ {flags} -w -x c++-header bits/stdc++.h -o bits/stdc++.h.gch"
)


def _cpp(standard: int) -> Language:
    flags = _CPP_FLAGS.format(standard=standard)
    return Language(
        f"cpp{standard}",
        "main.cpp",
        _PROGRAM,
        ("g++", "--version"),
        compile=("g++", *flags.split(), "-I{cache}", "main.cpp", "-o", "main"),
        prepare=_shell(_CPP_PREPARE.format(flags=flags)),
        out_of_memory=re.compile(rb"std::bad_alloc"),
    )


LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "main.py", (), ("{python}", "--version")),
        Language(
            "c",
            "main.c",
            _PROGRAM,
            ("gcc", "--version"),
            compile=("gcc", "-O2", "-std=gnu17", "-pipe", "main.c", "-o", "main", "-lm"),
        ),
        _cpp(17),
        _cpp(20),
        Language(
            "java",
            "Main.java",
            (
                "java",
                *_JVM,
                "-XX:+ExitOnOutOfMemoryError",
                "-Xss64m",
                f"-Xmx{_MEMORY_MB}m",
                "-cp",
                ".",
                "{entry}",
            ),
            ("javac", "--version"),
            compile=(
                "javac",
                *(f"-J{flag}" for flag in _JVM),
                "-J-Xmx512m",
                "-proc:none",
                "-encoding",
                "UTF-8",
                "-nowarn",
                "-d",
                ".",
                "{source}",
            ),
            makes=("**/*.class",),
            runtime_bytes=256 * 2**20,
            out_of_memory=re.compile(rb"java\.lang\.OutOfMemoryError"),
            names=java_names,
        ),
        Language(
            "javascript",
            "main.js",
            _NODE,
            ("node", "--version"),
            runtime_bytes=256 * 2**20,
            out_of_memory=_NODE_FULL,
            does_not_parse=_NODE_REFUSED,
        ),
        Language(
            "typescript",
            "main.ts",
            _NODE,
            ("tsc", "--version"),
            compile=("env", f"NODE_PATH={_NODE_MODULES}", "node", "-e", _STRIP_TYPES),
            makes=("main.js",),
            runtime_bytes=256 * 2**20,
            out_of_memory=_NODE_FULL,
        ),
        Language(
            "go",
            "main.go",
            _PROGRAM,
            ("go", "version"),
            # What `go build` would do, without its cache, which every build writes to.
            compile=_shell(
                "go tool compile -p main -importcfg {cache}/importcfg -o main.o main.go; "
                "go tool link -importcfg {cache}/importcfg -s -w -o main main.o"
            ),
            prepare=_shell(
                "export GOCACHE=$PWD/build HOME=$PWD; go list -export "
                "-f '{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}' std > here; "
                'sed "s#=$PWD#={cache}#" here > importcfg'
            ),
            runtime_bytes=64 * 2**20,
            out_of_memory=re.compile(rb"fatal error: (?:runtime: )?(?:out of memory|cannot alloc)"),
        ),
        Language(
            "rust",
            "main.rs",
            _PROGRAM,
            ("rustc", "--version"),
            compile=("rustc", "-O", "--edition", "2021", "main.rs", "-o", "main"),
            out_of_memory=re.compile(rb"memory allocation of \d+ bytes failed"),
        ),
        Language(
            "bash",
            "main.sh",
            ("bash", "main.sh"),
            ("bash", "--version"),
            out_of_memory=re.compile(rb"cannot allocate \d+ bytes"),
            does_not_parse=re.compile(rb"^main\.sh: line \d+: syntax error", re.MULTILINE),
        ),
    )
}


def find_language(name: str) -> Language:
    """The language called `name`.

    Raises:
        InvalidInput: there is none.
    """
    if name not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise InvalidInput(f"{name!r} is not known", field="language", hint=f"known: {known}")
    return LANGUAGES[name]
