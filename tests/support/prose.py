"""Counts relative words and banned phrases in Python files and Markdown pages.

Run as `python -m tests.support.prose [PATH ...]`.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RELATIVE = re.compile(r"\b(?:what|that|which|who|whose|where|whether|those|one)\b", re.IGNORECASE)
BANNED = re.compile(
    r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b|fewer\b|later\b|earlier\b)\w+"
    r"|\bin hand\b|\banew\b|\b(?:go|goes|going|gone|went) on\b|\bso (?:many|often)\b"
    r"|\bby (?:itself|themselves)\b|\blook(?:s|ed|ing)? at\b|\bof (?:its|their) own\b"
    r"|\bwhere there (?:is|are)\b|\bmend(?:s|ed|ing)?\b|\bbeside\b|\bin vain\b",
    re.IGNORECASE,
)
#: Relative words per 100 words of docstrings that a package may have.
LIMIT = 3.0
#: Words with which a function's docstring does not begin: its first word is a verb.
NO_VERB = re.compile(
    r"(?:an?|about|after|all|as|at|before|both|by|each|every|for|from|here|how|if|in|its|last|least"
    r"|most|new|none?|not|number|of|once|one|only|others?|same|seconds|several|such|the|their|there"
    r"|these|they|this|those|to|true|two|until|what|whatever|when|where|whether|which|whole?|whose"
    r"|with)",
    re.IGNORECASE,
)
FENCED = re.compile(r"^ *```.*?^ *```|<[^>]*>|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Counts:
    """Counts of one text or many: docstring words, relative words among them, banned phrases."""

    words: int
    relative: int
    banned: tuple[str, ...]

    @property
    def relative_per_100(self) -> float:
        """Return relative words per 100 docstring words."""
        return 100 * self.relative / max(1, self.words)


def python_files(folder: Path) -> list[Path]:
    """Return the Python files under `folder`, sorted."""
    return sorted(p for p in folder.rglob("*.py") if "__pycache__" not in p.parts)


def count_python(files: list[Path]) -> Counts:
    """Count the prose of Python files: docstrings, comments, and strings of three words or more."""
    words, relative, banned = 0, 0, []
    for file in files:
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        docstrings = dict(_docstrings(tree))
        for text in docstrings.values():
            words += len(re.findall(r"[A-Za-z']+", text))
            relative += len(RELATIVE.findall(text))
        texts = [*docstrings.items(), *_messages(tree, set(docstrings)), *_comments(source)]
        banned += [f"{file}:{line}: {found}" for line, text in texts for found in _banned(text)]
    return Counts(words, relative, tuple(banned))


def without_a_verb(files: list[Path]) -> list[str]:
    """Return the functions whose docstrings do not begin with a verb, as `file:line: docstring`.

    Properties are left out: their docstrings are noun phrases.
    """
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node)
            if text and not _is_property(node) and not _begins_with_a_verb(text):
                found.append(f"{file}:{node.lineno}: {text.splitlines()[0]}")
    return found


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def _begins_with_a_verb(text: str) -> bool:
    first = text.split()[0].rstrip(".,:;")
    return first.isalpha() and not NO_VERB.fullmatch(first)


def banned_in_page(page: Path) -> list[str]:
    """Return the banned phrases of a Markdown page, as `page: phrase`; code is not read."""
    prose = FENCED.sub(" ", page.read_text(encoding="utf-8"))
    return [f"{page}: {found}" for found in _banned(prose)]


def _banned(text: str) -> list[str]:
    flat = " ".join(text.split())
    return [flat[max(0, m.start() - 25) : m.end() + 20] for m in BANNED.finditer(flat)]


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text


def _messages(tree: ast.Module, docstring_lines: set[int]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if len(text.split()) > 2:
                if node.lineno not in docstring_lines:
                    yield node.lineno, text


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def main(paths: list[str]) -> None:
    """Print the counts of each path, and of all of them together."""
    files: list[Path] = []
    lines: list[str] = []
    for path in map(Path, paths or ["services", "shared"]):
        files += [path] if path.suffix == ".py" else python_files(path)
        for page in [path] if path.suffix == ".md" else sorted(path.rglob("*.md")):
            lines += banned_in_page(page)
    for file in files:
        counts = count_python([file])
        if counts.banned or counts.relative_per_100 > LIMIT:
            lines.append(f"{file}: {counts.relative_per_100:.1f} per 100 of {counts.words}")
            lines += [f"    {found}" for found in counts.banned]
    counts = count_python(files)
    lines.append(
        f"{len(files)} files: {counts.words} words in docstrings, "
        f"{counts.relative_per_100:.1f} relative per 100, {len(counts.banned)} banned phrases"
    )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
