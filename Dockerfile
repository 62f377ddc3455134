# codemode-server over HTTP, in a container: not as root, and with the WebAssembly sandbox compiled at build time.
#
#   docker build -t codemode-server .
#   docker run --network host -v "$PWD/upstream.yaml:/config/upstream.yaml:ro" -v codemode-data:/data codemode-server
#
# That serves loopback only, so the container shares its network with what connects: the host's with --network host, or
# that of a proxy with TLS (--network container:PROXY). deploy/compose.yaml runs replicas and nodes of this image.

FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY scripts/build_hook.py scripts/build_hook.py
COPY codemode_server codemode_server
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[conditions,microvm,postgres]"

FROM python:3.13-slim-bookworm
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "codemode-server[conditions,microvm,postgres]" \
    && useradd --uid 10001 --create-home codemode \
    && mkdir -m 700 /data /data/codemode-server /data/codemode-server/workspaces /cache /config \
    && chown -R codemode: /data /cache /config
USER 10001
ENV CODEMODE_CONFIG=/config/upstream.yaml \
    XDG_DATA_HOME=/data \
    XDG_CACHE_HOME=/cache \
    CODEMODE_STANDALONE=1 \
    PYTHONUNBUFFERED=1
RUN printf 'sandbox: { backend: wasm }\n' > /tmp/upstream.yaml \
    && codemode-server setup --config /tmp/upstream.yaml \
    && rm /tmp/upstream.yaml
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD \
    ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["codemode-server"]
CMD ["serve", "--http", "127.0.0.1:8000"]
