"""The configuration file: found, read, checked, described and watched.

    loaded = load(path)               everything that is wrong with the file is one SettingsError, with lines

Only `load` and `locate` are imported here: the first `tools/list` does without the rest.
"""

from codemode_server.config.loading import LoadedSettings, load, locate

__all__ = ["LoadedSettings", "load", "locate"]
