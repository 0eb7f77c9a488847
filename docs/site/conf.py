"""Sphinx's configuration of the site; the build turns every warning into an error."""

from pathlib import Path
from typing import Any

project = "Assay"
html_title = "Assay"
extensions = ["myst_parser", "sphinx.ext.napoleon", "autoapi.extension"]
myst_enable_extensions = ["deflist", "html_image"]
myst_heading_anchors = 6
myst_links_external_new_tab = False
html_theme = "furo"
html_static_path = ["theme"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# Backticks in docstrings mark code.
default_role = "code"
autoapi_dirs = [str(Path(__file__).parents[2] / "build/docs/python/assay_shared")]
autoapi_root = "python"
autoapi_add_toctree_entry = False
autoapi_keep_files = False
autoapi_member_order = "bysource"
autoapi_options = ["members", "undoc-members", "show-module-summary"]
autoapi_python_class_content = "both"
# Modules outside of the API are not copied, so their names stay unresolved in its annotations.
suppress_warnings = ["autoapi.python_import_resolution"]


def keep_drawings(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn the lines of a drawn tree in a docstring into a literal block."""
    drawn = [at for at, line in enumerate(lines) if line.lstrip().startswith(("├", "└", "│"))]
    if not drawn:
        return
    start = drawn[0] - 1
    end = next((at for at in range(start, len(lines)) if not lines[at].strip()), len(lines))
    lines[start:end] = ["::", "", *("    " + line for line in lines[start:end])]


def setup(app: Any) -> None:
    """Register the change of docstrings with Sphinx."""
    app.connect("autodoc-process-docstring", keep_drawings)
