"""The configuration file: found, read, checked, described and watched. The first `tools/list` does without the modules
that are not imported here."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codemode_server.config.loading import LoadedSettings, load, locate

__all__ = ["LoadedSettings", "load", "locate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    from codemode_server.config import loading

    return getattr(loading, name)
