"""Renders figures of matplotlib and seaborn and pictures of PIL as PNG files, for `show` and `plt.show()`.

They are recognized by the names of their classes: nothing is imported here.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from .files import File
from .tables import kinds_of

_BACKEND = f"{__package__}.figure_backend"
_IMAGE = "PIL.Image"
_FIGURES = ("matplotlib.Artist", "seaborn._BaseGrid")
"""Each has an attribute `figure`: the figure that it is part of, or itself."""
_PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")


def install() -> None:
    """Make `plt.show()` show the open figures to the model. matplotlib reads the variable when it is imported."""
    os.environ["MPLBACKEND"] = f"module://{_BACKEND}"


def is_picture(thing: Any) -> bool:
    return _is_pyplot(thing) or bool(kinds_of(_first(thing)) & {_IMAGE, *_FIGURES})


def pictures_of(picture: Any) -> list[File]:
    """The PNG of a picture, or of the whole figure if it is a part of one such as its axes; for `matplotlib.pyplot` one
    of each open figure."""
    if _is_pyplot(picture):
        return [_of_figure(picture.figure(number)) for number in picture.get_fignums()]
    if _IMAGE in kinds_of(picture):
        return [_of_image(picture)]
    figure = _first(picture).figure
    while figure.figure is not figure:  # a subfigure is part of another one
        figure = figure.figure
    return [_of_figure(figure)]


def _first(thing: Any) -> Any:
    """The first item of an array, since `plt.subplots` gives the axes of a figure as one; anything else as it is."""
    return thing.flat[0] if "numpy.ndarray" in kinds_of(thing) and thing.size else thing


def _is_pyplot(thing: Any) -> bool:
    return thing is not None and thing is sys.modules.get("matplotlib.pyplot")


def _of_figure(figure: Any) -> File:
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return File(data.getvalue(), "image/png")


def _of_image(image: Any) -> File:
    data = io.BytesIO()
    (image if image.mode in _PNG_MODES else image.convert("RGB")).save(data, format="PNG")
    return File(data.getvalue(), "image/png")
