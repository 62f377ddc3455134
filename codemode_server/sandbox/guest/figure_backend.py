"""A backend of matplotlib that draws PNG files. `plt.show()` shows the open figures to the model and closes them, as a
backend with windows does once the windows are closed. Only matplotlib imports this module."""

from __future__ import annotations

import sys
from typing import Any

from matplotlib import pyplot
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg


class FigureManager(FigureManagerBase):  # type: ignore[misc]  # its types are unknown here
    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        if pyplot.get_fignums():
            sys.modules["codemode"].show(pyplot)
            pyplot.close("all")


class FigureCanvas(FigureCanvasAgg):  # type: ignore[misc]
    manager_class: Any = FigureManager
