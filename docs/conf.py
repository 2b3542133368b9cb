"""How the pages are built: `python -m sphinx -W docs site`. Nothing is fetched."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from llama_index_rag_metrics import __version__

project = "llama-index-rag-metrics"
author = "llama-index-rag-metrics maintainers"
copyright = author  # noqa: A001 (Sphinx's name)
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "accessible",
    "metric_index",
    "public_names",
    "searching",
]
exclude_patterns = ["_ext"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# Sphinx's cache of what the pages print from METRICS can't know when a docstring changed
suppress_warnings = ["config.cache"]

html_theme = "furo"
html_title = "llama-index-rag-metrics"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
templates_path = ["_templates"]
html_css_files = ["page.css"]
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}
