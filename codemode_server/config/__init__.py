"""The configuration file: found, read, checked, described and watched. The first `tools/list` does without the modules
that are not imported here."""

from codemode_server.config.loading import LoadedSettings, load, locate

__all__ = ["LoadedSettings", "load", "locate"]
