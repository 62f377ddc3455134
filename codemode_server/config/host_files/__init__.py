"""Puts this product into the configuration files of hosts, and takes it out again."""
