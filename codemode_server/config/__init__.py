"""The configuration file: found, read, checked, described and watched.

    loaded = load(path)               everything that is wrong with the file is one SettingsError, with lines

`description.describe` says what was understood, without secrets; `watching.changes` gives the settings, or an error,
each time the file has changed. Whoever needs these imports them: the first `tools/list` does without.

Modules, in the order in which data flows: `places` (which file, and files read, with their digests), `trust`
(whether it may be used), `document` and `toml` (text → tree with lines), `formats`, `hosts` and `restrictions` (their
form → ours), `expansion` (variables), `checking` (tree → typed settings), `secrecy` (what must never be seen),
`reading` and `loading` (all of it), and on what was loaded `description`, `preview` (shown before trust is asked for)
and `watching`. `problems` is what they all report to.
"""

from codemode_server.config.loading import LoadedSettings, load, locate

__all__ = ["LoadedSettings", "load", "locate"]
