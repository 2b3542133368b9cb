"""A figure of plotly with a still picture, for where no script runs: GitHub, nbconvert, an e-mail.

Plotly gives a notebook nothing but its own type of data, which is drawn by a script.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

SVG = "image/svg+xml"


class PicturedFigure(go.Figure):  # type: ignore[misc]
    """A figure of plotly, which a notebook keeps as a picture, too, unless it was changed since."""

    _picture = _caption = _as_drawn = ""

    @classmethod
    def of(cls, figure: go.Figure, picture: str, caption: str) -> PicturedFigure:
        """A figure, the same as SVG, and what it shows in words."""
        pictured = cls(figure)
        pictured._picture, pictured._caption = picture, caption
        pictured._as_drawn = pictured.to_json()
        return pictured

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(*args, **options)
        if bundle and self._as_drawn == self.to_json():
            return {SVG: self._picture, "text/plain": self._caption} | bundle
        return bundle

    def show(self, *args: Any, **options: Any) -> None:
        bundle = {} if args or options else self._repr_mimebundle_()
        if SVG not in bundle:
            super().show(*args, **options)
            return
        notebook: Any = import_module("IPython.display")
        notebook.display(bundle, raw=True)

    def _ipython_display_(self) -> None:
        if pio.renderers.render_on_display:
            self.show()
        else:
            super()._ipython_display_()
