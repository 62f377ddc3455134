"""Interrupted programs that run again and get the recorded results of their calls."""
