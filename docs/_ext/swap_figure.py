"""`{swap-figure}`: a ranking whose items a reader moves, and what the metrics say of each order.

Every order is scored by the package while the page is built; the script on the page looks it up.
"""

from __future__ import annotations

import json
from html import escape
from itertools import permutations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from llama_index_rag_metrics import score_rankings

GRADES = (0, 3, 0, 1, 0, 2)
"""Of the items, as they are ranked at first; two more relevant items aren't retrieved."""

MISSED = {"missed 1": 2, "missed 2": 1}
NAMES = (
    "hit_rate@3",
    "mrr",
    "precision@3",
    "recall@3",
    "ap",
    "ndcg@5",
    "ndcg(mode=exponential)@5",
    "rbp",
)

SCRIPT = """
(() => {
  const figure = document.currentScript.closest(".swap");
  const scores = JSON.parse(figure.querySelector(".scores").textContent);
  const list = figure.querySelector("ol"), live = figure.querySelector("[aria-live]");
  const order = () => [...list.children].map(item => item.dataset.grade).join("");
  const show = before => {
    const now = scores[order()];
    figure.querySelectorAll("tbody tr").forEach((row, index) => {
      const change = before ? now[index] - before[index] : 0;
      row.cells[1].textContent = now[index].toFixed(4);
      row.cells[2].textContent = Math.abs(change) < 5e-5 ? ""
        : (change > 0 ? "\\u25b2 " : "\\u25bc ") + Math.abs(change).toFixed(4);
    });
  };
  [...list.children].forEach(item => {
    const button = item.querySelector("button");
    button.hidden = false;
    button.addEventListener("click", () => {
      const above = item.previousElementSibling;
      if (!above) return;
      const before = scores[order()];
      list.insertBefore(item, above);
      show(before);
      const rank = [...list.children].indexOf(item) + 1;
      live.textContent = item.dataset.name + " is at rank " + rank + " now.";
      button.focus();
    });
  });
})();
"""


def scored_orders() -> dict[str, list[float]]:
    """The scores of every order of the grades, in the order of NAMES."""
    orders = sorted(set(permutations(GRADES)))
    items = [_items(order) for order in orders]
    expected = [{**dict(ranking), **MISSED} for ranking in items]
    retrieved = [[name for name, _ in ranking] for ranking in items]
    scores = score_rankings(expected, retrieved, NAMES)
    return {
        "".join(map(str, order)): [round(float(scores[name][index]), 6) for name in NAMES]
        for index, order in enumerate(orders)
    }


def _items(grades: tuple[int, ...]) -> list[tuple[str, int]]:
    return [(f"item {rank}", grade) for rank, grade in enumerate(grades)]


class SwapFigure(SphinxDirective):
    """The list, the table of the first order, and the scores of all others."""

    def run(self) -> list[nodes.Node]:
        scores = scored_orders()
        first = scores["".join(map(str, GRADES))]
        words = {0: "not relevant"}
        items = "".join(
            f'<li data-grade="{grade}" data-name="Item {letter}"><span>Item {letter}: '
            f"{words.get(grade, f'grade {grade}')}</span> "
            f'<button type="button" hidden aria-label="Move item {letter} up">▲ up</button></li>'
            for letter, grade in zip("ABCDEF", GRADES, strict=True)
        )
        rows = "".join(
            f'<tr><th scope="row"><code>{escape(name)}</code></th>'
            f"<td>{score:.4f}</td><td></td></tr>"
            for name, score in zip(NAMES, first, strict=True)
        )
        markup = (
            f'<div class="swap"><ol>{items}</ol><table class="docutils">'
            '<thead><tr><th scope="col">metric</th><th scope="col">score</th>'
            f'<th scope="col">changed by</th></tr></thead><tbody>{rows}</tbody></table>'
            '<p aria-live="polite"></p>'
            f'<script type="application/json" class="scores">{json.dumps(scores)}</script>'
            f"<script>{SCRIPT}</script></div>"
        )
        return [nodes.raw("", markup, format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("swap-figure", SwapFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
