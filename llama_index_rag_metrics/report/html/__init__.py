"""The report as one HTML file that works offline: numbers, plots, and every query side by side."""

from llama_index_rag_metrics.report.html.page import Cut, html_page, write_page

__all__ = ["Cut", "html_page", "write_page"]
