"""`python -m docs.site.write_source FOLDER`: write Sphinx's source of the site into a folder."""

import json
import re
import shutil
import sys
from pathlib import Path

from docs.site.commands import command_pages, command_summaries
from docs.site.files import file_page, folder_page, linked_files, tracked_files
from docs.site.http_pages import http_page, openapi_documents
from docs.site.links import Links
from docs.site.navigation import ROOT, Navigation, Section, read_navigation

#: What a caller of the services imports; the API pages are read from copies of these.
PYTHON_API = ("clients", "types", "errors.py", "interfaces.py")
REFERENCE = Section(
    "Reference", "Every command, route, client and type, written from the code.", ()
)


def main() -> None:
    """Write the source into the folder that the command line names, in place of an older one."""
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    source = target / "source"
    source.mkdir(parents=True)
    navigation = read_navigation()
    write_pages(source, navigation)
    write_commands(source)
    write_http(source)
    copy_python(target / "python" / "assay_shared")
    shutil.copytree(Path(__file__).parent / "theme", source / "theme")
    shutil.copytree(ROOT / "docs" / "images", source / "images")


def write_pages(source: Path, navigation: Navigation) -> None:
    """Write all pages of the repository, the sections, and the files that pages link to."""
    pages = tuple(navigation.pages())
    links = Links(pages, navigation.home)
    texts = {page: (ROOT / page).read_text() for page in pages}
    for page, text in texts.items():
        rewritten = links.rewrite(text, page)
        if page == navigation.home:
            rewritten += _contents(
                [*(s.site_page for s in navigation.sections), REFERENCE.site_page]
            )
        write(source / links.site_path(page), rewritten)
    for section in navigation.sections:
        rows = [(links.site_path(page), *_title_and_first(texts[page])) for page in section.pages]
        write(source / section.site_page, _section_page(section, rows))
    reference = [
        ("commands/index.md", "Commands", "`assay` and all its commands with their options."),
        *(
            (f"http/{name}.md", f"HTTP: {name}", f"Routes and bodies of the {name} service.")
            for name in ("inference", "sandbox", "judge", "reward", "trainer")
        ),
        ("python/assay_shared/index.rst", "Python", "Clients, messages, errors and interfaces."),
        ("files/index.md", "Files", "Source and configuration that the pages link to."),
    ]
    write(source / REFERENCE.site_page, _section_page(REFERENCE, reference))
    write_files(source, links)


def write_files(source: Path, links: Links) -> None:
    """Write a page for each file and folder outside of the pages that a page links to."""
    found = linked_files(links.files, tracked_files(ROOT))
    for path, inside in found.items():
        page = folder_page(path, inside, links.files) if inside else file_page(ROOT, path)
        write(source / f"files/{path}.md", page)
    rows = "\n".join(f"- [{path}]({path}.md)" for path in sorted(links.files))
    write(
        source / "files/index.md", f"# Files\n\nFiles and folders that the pages name.\n\n{rows}\n"
    )


def write_commands(source: Path) -> None:
    """Write a page for each command of `assay`, and a table of them."""
    pages = command_pages()
    for name, text in pages.items():
        write(source / f"commands/{name}.md", text)
    told = command_summaries()
    rows = "\n".join(f"| [{name}]({name}.md) | {told[name]} |" for name in pages)
    table = f"# Commands\n\nThe commands of `assay`.\n\n| command | |\n|---|---|\n{rows}\n"
    write(source / "commands/index.md", table + _contents([f"{name}.md" for name in pages]))


def write_http(source: Path) -> None:
    """Write a page and the OpenAPI document of each service."""
    for name, document in openapi_documents().items():
        write(source / f"http/{name}.md", http_page(name, document))
        write(source / f"http/openapi/{name}.json", json.dumps(document, indent=1))


def copy_python(target: Path) -> None:
    """Copy the modules of the Python API, which Sphinx reads and does not import."""
    package = ROOT / "shared" / "assay_shared"
    target.mkdir(parents=True)
    for name in ("__init__.py", *PYTHON_API):
        if (package / name).is_dir():
            shutil.copytree(
                package / name, target / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(package / name, target / name)


def write(path: Path, text: str) -> None:
    """Write a text into a new file, with the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _title_and_first(text: str) -> tuple[str, str]:
    """Return a page's title and the first sentence of its first paragraph, without links."""
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    rest = text[title.end() :] if title else text
    paragraphs = (part for part in rest.split("\n\n") if re.match(r"\s*[`*\w]", part))
    first = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(next(paragraphs, "").split()))
    sentence = re.match(r"(?:`[^`]*`|[^`])*?[.:](?= |$)", first)
    return (title[1] if title else ""), (sentence[0] if sentence else first).rstrip(":")


def _section_page(section: Section, rows: list[tuple[str, str, str]]) -> str:
    """Return a section's page: each of its pages with a sentence, and the hidden contents."""
    table = "\n".join(f"**[{title}](../{page})**\n: {told}\n" for page, title, told in rows)
    contents = _contents([f"../{page}" for page, _, _ in rows])
    return f"# {section.name}\n\n{section.about}\n\n{table}{contents}"


def _contents(pages: list[str]) -> str:
    return "\n\n```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n"


if __name__ == "__main__":
    main()
