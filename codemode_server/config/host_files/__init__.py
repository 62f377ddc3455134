"""Edits single entries in the configuration files of hosts; every other byte stays as it is."""
