"""The sandbox backends, a package each."""
