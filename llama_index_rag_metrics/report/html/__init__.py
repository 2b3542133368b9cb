"""A report as HTML: one file that works offline, or the output of a notebook's cell."""

from llama_index_rag_metrics.report.html.page import fragment, html_page, write_page

__all__ = ["fragment", "html_page", "write_page"]
