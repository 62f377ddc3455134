"""Which requests of a server are answered, by its settings and the features of the host."""

from __future__ import annotations

from codemode_server.domain.input_requests import Feature
from codemode_server.settings import ServerSettings


def answered_features(server: ServerSettings, host: frozenset[Feature]) -> frozenset[Feature]:
    """Features answered to a server during a call of a host with these features."""
    features: set[Feature] = set()
    if server.elicitation == "forward":
        features |= host & {Feature.ELICITATION, Feature.URL}
    if server.sampling == "forward" and Feature.SAMPLING in host:
        features.add(Feature.SAMPLING)
    if not isinstance(server.roots, str) or (server.roots == "forward" and Feature.ROOTS in host):
        features.add(Feature.ROOTS)
    return frozenset(features)
