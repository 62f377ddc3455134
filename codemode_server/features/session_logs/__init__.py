"""A log of each session's programs as files in its workspace."""
