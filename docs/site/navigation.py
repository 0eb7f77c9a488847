"""The sections of the site, read from navigation.yaml."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]


class Section(NamedTuple):
    """A step of the reader's path: its name, a sentence about it, and its pages in order."""

    name: str
    about: str
    pages: tuple[str, ...]

    @property
    def site_page(self) -> str:
        """Return the path of the section's own page in the site's source."""
        return f"sections/{self.name.lower().replace(' ', '_')}.md"


class Navigation(NamedTuple):
    """The home page and the sections; all paths start at the repository's root."""

    home: str
    sections: tuple[Section, ...]

    def pages(self) -> Iterator[str]:
        """Yield every page, the home page first."""
        yield self.home
        for section in self.sections:
            yield from section.pages


def read_navigation() -> Navigation:
    """Return the navigation of navigation.yaml."""
    given = yaml.safe_load((Path(__file__).parent / "navigation.yaml").read_text())
    sections = (
        Section(part["name"], part["about"], tuple(part["pages"])) for part in given["sections"]
    )
    return Navigation(given["home"], tuple(sections))
