"""Sphinx's configuration for tools/site, which copies the documents and this file into one
directory."""
import os

project = "stage-data"
version = release = os.environ.get("SITE_VERSION", "")
copyright = "the authors of stage-data"  # noqa: A001
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 6
# Words behind ``` that tests/cluster/guide-blocks reads are no languages.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
exclude_patterns = ["README.md"]  # which index.md includes
smartquotes = False  # or --json becomes a dash
html_static_path = ["site"]
html_css_files = ["site.css"]
highlight_language = "none"
html_theme = "furo"
html_title = "stage-data"
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
templates_path = []
