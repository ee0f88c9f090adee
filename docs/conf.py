"""How the documentation site is built: `make docs` calls Sphinx on this folder.

Nothing is fetched, neither while building nor while reading: the theme brings its own scripts, the search index is a
file, and equations become MathML, which browsers draw by themselves. The same sources give the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "_site"), str(Path(__file__).parents[1])]

import sparcal

project = "sparcal"
author = "The sparcal developers"
release = version = sparcal.__version__
html_title = "sparcal"
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "long_names",
    "mathml",
    "generated",
    "notebooks",
    "repository_links",
]
exclude_patterns = ["_site"]

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block", "attrs_inline", "deflist"]
myst_heading_anchors = 3  # [text](page.md#a-heading) leads to the same place here and in a checkout
nitpicky = True  # a name that is linked and missing is an error, and --fail-on-warning makes it stop the build
nitpick_ignore_regex = [("py:.*", r"(?!sparcal).*")]  # what other projects document is not built here

# Types that stand in a signature and are nobody's to make.
nitpick_ignore = [
    ("py:class", f"sparcal.{name}")
    for name in (
        "imaging.preprocess.Geometry",
        "imaging.read.Failure",
        "neighbours._boxes.Boxes",
        "export.lot_state.LotFacts",
    )
]

default_role = "code"  # docstrings put names between single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"Images": "Images"}
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "furo"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_logo = "_site/static/mark.svg"
html_favicon = "_site/static/mark.svg"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#9a3412",
        "color-brand-content": "#9a3412",
        "color-brand-visited": "#7c3a5e",
    },
    "dark_css_variables": {
        "color-brand-primary": "#fdba74",
        "color-brand-content": "#fdba74",
        "color-brand-visited": "#e9b3cf",
    },
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
