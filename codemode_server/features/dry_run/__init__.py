"""Runs of a program that send no call that acts, and report what it would have sent."""
