"""The configuration file: found, read, checked, described and watched.

    loaded = load(path)               everything that is wrong with the file is one SettingsError, with lines
    print(describe(loaded))           what was understood, without secrets
    async for now in changes(path):   settings or errors, each time the file has changed

Modules, in the order in which data flows: `document` (text → tree with lines), `hosts` (their form → ours),
`expansion` (variables), `checking` (tree → typed settings), `secrecy` (what must never be seen), `loading` (all of
it), and on what was loaded `description` and `watching`. `problems` is what they all report to.
"""

from codemode_server.config.description import describe
from codemode_server.config.loading import LoadedSettings, load
from codemode_server.config.watching import changes

__all__ = ["LoadedSettings", "changes", "describe", "load"]
