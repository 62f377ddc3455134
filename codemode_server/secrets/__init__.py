"""Secrets of the person: where they are stored, and how `upstream.yaml` refers to them."""
