"""Signing in to upstreams with OAuth 2.1: `login` and `logout` for the person, tokens for connections."""
