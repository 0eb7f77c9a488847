"""Further languages with Debian packages: C#, PHP, Lua, Perl, Ruby, R, Racket, D and Verilog."""

import re

from assay_sandbox.languages.language import PROGRAM, Language, shell

#: The namespaces that a recent .NET project includes implicitly.
_USINGS = (
    "System",
    "System.IO",
    "System.Linq",
    "System.Threading",
    "System.Threading.Tasks",
    "System.Collections.Generic",
)
_CSHARP_HEAD = " ".join(f"using {name};" for name in _USINGS) + '\n#line 1 "main.cs"\n'
#: Runs a program so that a failed Debug.Assert ends it: .NET does this, Mono alone does not.
_LAUNCHER = """
using System;
using System.Diagnostics;
class Ends : DefaultTraceListener {
    public override void Fail(string message, string detail) {
        Console.Error.WriteLine("Process terminated. Assertion failed.");
        Console.Error.WriteLine(message + " " + detail);
        Console.Error.WriteLine(new StackTrace(true));
        Console.Out.Flush();
        Environment.Exit(134);
    }
}
class Launch {
    static int Main(string[] words) {
        Debug.Listeners.Clear();
        Debug.Listeners.Add(new Ends());
        var rest = new string[words.Length - 1];
        Array.Copy(words, 1, rest, 0, rest.Length);
        return AppDomain.CurrentDomain.ExecuteAssembly(words[0], rest);
    }
}
"""


def _csharp_text(code: str) -> str:
    return _CSHARP_HEAD + code


def _php_text(code: str) -> str:
    """Return the text with an opening tag, and without whitespace before the tag.

    PHP would print the whitespace.
    """
    code = code.lstrip()
    return code if code.startswith("<?") else "<?php\n" + code


INTERPRETED = (
    Language(
        "csharp",
        "main.cs",
        ("mono", "{cache}/launch.exe", "main.exe"),
        ("mcs", "--version"),
        compile=(
            "mcs",
            "-nologo",
            "-langversion:latest",
            "-define:DEBUG;TRACE",
            "-nowarn:105",
            "-r:System.Core,System.Numerics",
            "-out:main.exe",
            "main.cs",
        ),
        makes=("main.exe",),
        prepare=shell(
            f"cat > launch.cs <<'END'\n{_LAUNCHER}\nEND\n"
            "mcs -nologo -define:DEBUG -out:launch.exe launch.cs"
        ),
        runtime_bytes=64 * 2**20,
        out_of_memory=re.compile(rb"OutOfMemoryException|could not allocate|out of memory"),
        complete=_csharp_text,
        needs=("/etc/mono",),
        tools=("mono",),
    ),
    Language(
        "php",
        "main.php",
        ("php", "-d", "memory_limit={memory_mb}M", "-d", "display_errors=stderr", "main.php"),
        ("php", "--version"),
        out_of_memory=re.compile(rb"Allowed memory size of|Out of memory"),
        does_not_parse=re.compile(rb"^(?:PHP )?Parse error:", re.MULTILINE),
        complete=_php_text,
        needs=("/etc/php",),
    ),
    Language(
        "lua",
        "main.lua",
        ("lua", "main.lua"),
        ("lua", "-v"),
        out_of_memory=re.compile(rb"not enough memory"),
        does_not_parse=re.compile(rb"^lua[\d.]*: main\.lua:\d+: [^\n]* near [^\n]*$", re.MULTILINE),
    ),
    Language(
        "perl",
        "main.pl",
        ("perl", "main.pl"),
        ("perl", "-e", "print qq(perl $^V\\n)"),
        out_of_memory=re.compile(rb"^Out of memory", re.MULTILINE),
        does_not_parse=re.compile(
            rb"^(?:Execution of main\.pl aborted due to compilation errors"
            rb"|main\.pl had (?:too many|compilation) errors)",
            re.MULTILINE,
        ),
        needs=("/etc/perl",),
    ),
    Language(
        "ruby",
        "main.rb",
        ("ruby", "main.rb"),
        ("ruby", "--version"),
        out_of_memory=re.compile(rb"failed to allocate memory"),
        does_not_parse=re.compile(rb"^main\.rb:\d+: syntax error", re.MULTILINE),
    ),
    Language(
        "r",
        "main.R",
        ("Rscript", "--vanilla", "main.R"),
        ("Rscript", "--version"),
        runtime_bytes=64 * 2**20,
        out_of_memory=re.compile(rb"cannot allocate (?:vector|memory)|memory exhausted"),
        needs=("/etc/R",),
    ),
    Language(
        "racket",
        "main.rkt",
        ("racket", "main.rkt"),
        ("racket", "--version"),
        runtime_bytes=256 * 2**20,
        out_of_memory=re.compile(rb"out of memory"),
        does_not_parse=re.compile(rb"^main\.rkt:\d+:\d+: read-syntax:", re.MULTILINE),
        needs=("/etc/racket",),
    ),
    Language(
        "d",
        "main.d",
        # Run the unit tests before `main`; otherwise they would run in place of it.
        (*PROGRAM, "--DRT-testmode=run-main"),
        ("ldc2", "--version"),
        compile=("ldc2", "-unittest", "-of=main", "main.d"),
        out_of_memory=re.compile(rb"core\.exception\.OutOfMemoryError|Memory allocation failed"),
        needs=("/etc/ldc2.conf",),
    ),
    Language(
        "verilog",
        "main.sv",
        ("vvp", "-n", "main.vvp"),
        ("iverilog", "-V"),
        compile=shell(
            "top=; ! grep -q '^[[:space:]]*module[[:space:]]*tb\\b' main.sv || top='-s tb'; "
            "iverilog -Wall -Winfloop -Wno-timescale -g2012 $top -o main.vvp main.sv"
        ),
        makes=("main.vvp",),
    ),
)
