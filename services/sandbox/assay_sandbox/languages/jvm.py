"""Languages of the Java machine: Java, JUnit, Scala and Kotlin."""

import re

from assay_sandbox.languages.language import MEMORY_MB, Language, shell

_JARS = "/usr/share/java"
#: The program's classes, the jars sent with it, and a library that SandboxFusion provides.
_CLASS_PATH = f".:./*:{_JARS}/javatuples.jar"
_JUNIT_PATH = ":".join(
    [
        _CLASS_PATH,
        *(
            f"{_JARS}/{name}.jar"
            for name in (
                "junit-jupiter-api",
                "junit-jupiter-engine",
                "junit-jupiter-params",
                "junit-platform-commons",
                "junit-platform-console",
                "junit-platform-engine",
                "junit-platform-launcher",
                "junit-platform-reporting",
                "junit-vintage-engine",
                "junit4",
                "hamcrest-core",
                "opentest4j",
                "opentest4j-reporting-events",
                "opentest4j-reporting-schema",
                "apiguardian-api",
                "picocli",
                "univocity-parsers",
            )
        ),
    ]
)
_JVM = ("-Xms16m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
#: The same flags for the Java machine of a compiler.
_QUICK_START = tuple(f"-J{flag}" for flag in _JVM)
_RUN = ("java", *_JVM, "-XX:+ExitOnOutOfMemoryError", "-Xss64m", f"-Xmx{MEMORY_MB}m", "-ea")
_JAVAC = (
    "javac",
    *_QUICK_START,
    "-J-Xmx512m",
    "-proc:none",
    "-encoding",
    "UTF-8",
    "-nowarn",
    "-d",
    ".",
)
_FULL = re.compile(rb"java\.lang\.OutOfMemoryError")
_RUNTIME_BYTES = 256 * 2**20
_SETTINGS = ("/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk")

#: Only this many characters of a text are searched for names, to bound the time.
_LOOKED_AT = 2**18
#: Comments and quoted texts. An unclosed one extends to the end, so no part is read twice.
_JAVA_NOISE = re.compile(
    r"//[^\n]*+|/\*.*?(?:\*/|\Z)"
    r'|"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)|"(?:[^"\\\n]|\\.)*+"?'
    r"|'(?:[^'\\\n]|\\.)*+'?",
    re.DOTALL,
)
_JAVA_PART = re.compile(
    r"(?P<public>\bpublic\s+(?:(?:final|abstract|sealed|strictfp)\s+)*)?"
    r"\b(?:class|record|enum|interface)\s+(?P<name>\w+)"
    r"|(?P<brace>[{}])|(?P<main>\bvoid\s+main\s*\()"
)
_JAVA_PACKAGE = re.compile(r"^[ \t]*package\s++([\w.]++)\s*+;", re.MULTILINE)


def java_names(code: str) -> tuple[str, str]:
    """Return the name of the file for javac, and the class with `main`."""
    code = _JAVA_NOISE.sub(" ", code[:_LOOKED_AT])
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


_SCALA_ENTRY = re.compile(
    r"^[ \t]*(?:case\s+)?object\s+(\w+)\s+extends\s+(?:\w+\s+with\s+)*App\b"
    r"|^[ \t]*(?:case\s+)?object\s+(\w+)|(\bdef\s+main\s*\()",
    re.MULTILINE,
)
_SCALA_PACKAGE = re.compile(r"^[ \t]*package[ \t]++([\w.]++)[ \t\r]*+$", re.MULTILINE)


def scala_names(code: str) -> tuple[str, str]:
    """Return the file's name, and the first object to be an App or have `main`."""
    code = code[:_LOOKED_AT]
    package = _SCALA_PACKAGE.search(code)
    prefix = f"{package.group(1)}." if package else ""
    last = "Main"
    for found in _SCALA_ENTRY.finditer(code):
        application, declared, main = found.groups()
        last = application or declared or last
        if application or main:
            break
    return "main.scala", prefix + last


def _quote(words: tuple[str, ...]) -> str:
    return " ".join(f"'{word}'" for word in words)


JVM = (
    Language(
        "java",
        "Main.java",
        (*_RUN, "-cp", _CLASS_PATH, "{entry}"),
        ("javac", "--version"),
        compile=(*_JAVAC, "-cp", _CLASS_PATH, "{source}"),
        makes=("**/*.class",),
        runtime_bytes=_RUNTIME_BYTES,
        out_of_memory=_FULL,
        names=java_names,
        needs=_SETTINGS,
    ),
    Language(
        "junit",
        "Main.java",
        (
            *_RUN,
            "-cp",
            _JUNIT_PATH,
            "org.junit.platform.console.ConsoleLauncher",
            "--disable-banner",
            "--disable-ansi-colors",
            "--class-path",
            ".",
            "--scan-class-path",
        ),
        ("javac", "--version"),
        compile=shell(f"{_quote((*_JAVAC, '-cp', _JUNIT_PATH))} $(find . -name '*.java')"),
        makes=("**/*.class",),
        runtime_bytes=_RUNTIME_BYTES,
        out_of_memory=_FULL,
        names=lambda code: (java_names(code)[0], "main"),
        needs=_SETTINGS,
        tools=(f"{_JARS}/junit-platform-console.jar",),
    ),
    Language(
        "scala",
        "main.scala",
        (*_RUN, "-cp", f".:./*:{_JARS}/scala-library.jar", "{entry}"),
        ("scalac", "-version"),
        compile=(
            "scalac",
            "-nowarn",
            *_QUICK_START,
            "-J-Xss16m",
            "-J-Xmx1g",
            "-d",
            ".",
            "main.scala",
        ),
        makes=("**/*.class",),
        runtime_bytes=_RUNTIME_BYTES,
        out_of_memory=_FULL,
        names=scala_names,
        needs=_SETTINGS,
    ),
    Language(
        "kotlin_script",
        "main.kts",
        ("kotlinc", *_QUICK_START, "-J-Xmx1g", "-J-ea", "-nowarn", "-script", "main.kts"),
        ("java", "--version"),
        runtime_bytes=1024 * 2**20,
        out_of_memory=_FULL,
        does_not_parse=re.compile(rb"^main\.kts:\d+:\d+: error: ", re.MULTILINE),
        needs=_SETTINGS,
        tools=("kotlinc",),
    ),
)
