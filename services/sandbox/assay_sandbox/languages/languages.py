"""The table of languages: a new language is a new row."""

import re
from pathlib import PurePath

from assay_sandbox.languages.interpreted import INTERPRETED
from assay_sandbox.languages.jvm import JVM
from assay_sandbox.languages.language import PROGRAM, Language, shell
from assay_sandbox.languages.test_runners import NODE_MODULES, TEST_RUNNERS
from assay_shared.errors import InvalidInput

# Only strip the types, as every runner of TypeScript does: tsc would also demand declarations of
# every library that a program uses.
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
_NODE = (
    "env",
    f"NODE_PATH={NODE_MODULES}",
    "node",
    "--max-old-space-size={memory_mb}",
    "--stack-size=50000",
    "main.js",
)
_NODE_FULL = re.compile(rb"heap out of memory|RangeError: (?:Array buffer|Invalid string)")
_NODE_REFUSED = re.compile(
    rb"^SyntaxError: [^\n]*+\n[ \t]++at (?:wrapSafe|internalCompileFunction)\b", re.MULTILINE
)
_CPP_FLAGS = "-O2 -std=c++{standard} -pipe"
#: Our bits/stdc++.h includes the system's header. The compiler reads our precompiled form of it.
_CPP_PREPARE = (
    "mkdir bits; echo '#include_next <bits/stdc++.h>' > bits/stdc++.h; "
    "g++ {flags} -w -x c++-header bits/stdc++.h -o bits/stdc++.h.gch"
)


def _cpp(standard: int) -> Language:
    flags = _CPP_FLAGS.format(standard=standard)
    return Language(
        f"cpp{standard}",
        "main.cpp",
        PROGRAM,
        ("g++", "--version"),
        compile=("g++", *flags.split(), "-I{cache}", "main.cpp", "-o", "main"),
        prepare=shell(_CPP_PREPARE.format(flags=flags)),
        out_of_memory=re.compile(rb"std::bad_alloc"),
    )


LANGUAGES = {
    language.name: language
    for language in (
        # matplotlib needs the fonts.
        Language("python", "main.py", (), ("{python}", "--version"), needs=("/etc/fonts",)),
        Language(
            "c",
            "main.c",
            PROGRAM,
            ("gcc", "--version"),
            compile=("gcc", "-O2", "-std=gnu17", "-pipe", "main.c", "-o", "main", "-lm"),
        ),
        _cpp(17),
        _cpp(20),
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
            compile=("env", f"NODE_PATH={NODE_MODULES}", "node", "-e", _STRIP_TYPES),
            makes=("main.js",),
            runtime_bytes=256 * 2**20,
            out_of_memory=_NODE_FULL,
        ),
        Language(
            "go",
            "main.go",
            PROGRAM,
            ("go", "version"),
            # The steps of `go build` without its cache, since every build writes to the cache.
            compile=shell(
                "go tool compile -p main -importcfg {cache}/importcfg -o main.o main.go; "
                "go tool link -importcfg {cache}/importcfg -s -w -o main main.o"
            ),
            prepare=shell(
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
            PROGRAM,
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
        *JVM,
        *INTERPRETED,
        *TEST_RUNNERS,
    )
}


def language_of(file: str) -> str:
    """Return the first language of the table whose files end as this one does; else python."""
    suffix = PurePath(file).suffix.lower()
    names = (
        one.name for one in LANGUAGES.values() if PurePath(one.source).suffix.lower() == suffix
    )
    return next(names, "python")


def find_language(name: str) -> Language:
    """Return the language called `name`.

    Raises:
        InvalidInput: there is no such language.
    """
    if name not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise InvalidInput(f"{name!r} is not known", field="language", hint=f"known: {known}")
    return LANGUAGES[name]
