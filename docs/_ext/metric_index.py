"""`{metric-index}`: the table of all metrics, from METRICS, each linked to its definition.

A metric without its definition, a target `(metric-NAME)=`, is a warning: the build fails.
"""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from llama_index_rag_metrics import METRICS
from llama_index_rag_metrics.metrics.metric_names import ALIASES


class MetricIndex(SphinxDirective):
    """One row per metric: name, range, definition, what else it is called."""

    def run(self) -> list[nodes.Node]:
        rows = ["| metric | range | definition | also called |", "|---|---|---|---|"]
        for name, entry in METRICS.items():
            low, high = (f"{bound:g}".replace("inf", "∞") for bound in entry.metric_class.bounds)
            aliases = ", ".join(f"`{alias}`" for alias, target in ALIASES.items() if target == name)
            definition = entry.definition.replace("|", "\\|")
            link = f"[{name}](#metric-{name.replace('_', '-')})"
            rows.append(f"| {link} | {low} to {high} | {definition} | {aliases} |")
        return self.parse_text_to_nodes("\n".join(rows))


def setup(app: Sphinx) -> dict[str, bool]:
    directive: type[Directive] = MetricIndex
    app.add_directive("metric-index", directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
