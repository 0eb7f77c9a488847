"""The documentation site: `make docs` writes Sphinx's source, then Sphinx builds it."""
