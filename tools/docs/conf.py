"""Sphinx's settings for the documentation site; `tools/build_site.py` runs it."""

from __future__ import annotations

from insync.version import __version__

project = "insync"
author = "the insync authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"insync {__version__}"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
suppress_warnings = ["myst.header", "myst.xref_missing"]
"""Pages begin with any level, and link to source files, which are not part of the site."""
exclude_patterns = ["docs/adr/template.md"]
