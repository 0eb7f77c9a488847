"""Links of a repository's page, rewritten for the site.

The site's source has the files of `docs/` at its root. A link to a file outside the pages leads to
a page of the site with the file's text, so the site needs no address of a repository.
"""

import posixpath
import re
from collections.abc import Collection

#: Fenced blocks and code in a line hold no links.
_PARTS = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<open>\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]+)?\)")
_PICTURE = re.compile(r'(?P<open>src=")(?P<target>[^"]+)"')
#: Languages of fenced blocks that Pygments does not know.
_UNKNOWN = re.compile(r"^( *```)(?:workflow(?:-broken)?|ebnf)$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z]+:")


class Links:
    """The way from paths of the repository to paths of the site's source."""

    def __init__(self, pages: Collection[str], home: str) -> None:
        self._pages = set(pages)
        self._home = home
        #: Files and folders outside the pages that a page links to.
        self.files: set[str] = set()

    def site_path(self, path: str) -> str:
        """Return the site's path of a file or folder of the repository."""
        if path == self._home:
            return "index.md"
        if path in self._pages or path.startswith("docs/images/"):
            return path.removeprefix("docs/")
        self.files.add(path)
        return f"files/{path}.md"

    def rewrite(self, text: str, page: str) -> str:
        """Return a page's text with its links as the site needs them."""
        parts = _PARTS.split(text)
        for at in range(0, len(parts), 2):
            parts[at] = self._rewrite_part(parts[at], page)
        return _UNKNOWN.sub(r"\1text", "".join(parts))

    def _rewrite_part(self, text: str, page: str) -> str:
        def in_markdown(match: re.Match[str]) -> str:
            target = self._relative(match["target"], page)
            return f"{match['open']}{target}{match['anchor'] or ''})"

        def in_picture(match: re.Match[str]) -> str:
            return f'{match["open"]}{self._relative(match["target"], page)}"'

        return _PICTURE.sub(in_picture, _LINK.sub(in_markdown, text))

    def _relative(self, target: str, page: str) -> str:
        if _SCHEME.match(target):
            return target
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        start = posixpath.dirname(self.site_path(page)) or "."
        return posixpath.relpath(self.site_path(path), start)
