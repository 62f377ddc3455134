"""Figures of matplotlib and seaborn and pictures of PIL as PNG files, for `show`; and what `plt.show()` does here.

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
"""Each has a `figure`: itself, or that which it is part of."""
_PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")


def install() -> None:
    """Have `plt.show()` show the open figures to the model; matplotlib reads this when it is imported."""
    os.environ["MPLBACKEND"] = f"module://{_BACKEND}"


def is_picture(thing: Any) -> bool:
    return thing is _pyplot() or bool(kinds_of(_first(thing)) & {_IMAGE, *_FIGURES})


def pictures_of(picture: Any) -> list[File]:
    """Of a figure, or a part of one such as its axes, the whole figure; of matplotlib.pyplot all open figures."""
    if picture is _pyplot():
        return [_of_figure(picture.figure(number)) for number in picture.get_fignums()]
    if _IMAGE in kinds_of(picture):
        return [_of_image(picture)]
    figure = _first(picture).figure
    while figure.figure is not figure:  # that of a part of a figure may be a part itself
        figure = figure.figure
    return [_of_figure(figure)]


def _first(thing: Any) -> Any:
    """The first item of an array, which has the axes of one figure; anything else itself."""
    return thing.flat[0] if "numpy.ndarray" in kinds_of(thing) and thing.size else thing


def _pyplot() -> Any:
    return sys.modules.get("matplotlib.pyplot", _pyplot)


def _of_figure(figure: Any) -> File:
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return File(data.getvalue(), "image/png")


def _of_image(image: Any) -> File:
    data = io.BytesIO()
    (image if image.mode in _PNG_MODES else image.convert("RGB")).save(data, format="PNG")
    return File(data.getvalue(), "image/png")
