"""Names of environment variables for proxies and certificates, which are the same for all programs of a machine."""

NO_PROXY = ("NO_PROXY", "no_proxy")
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("UV_SYSTEM_CERTS", "UV_NATIVE_TLS"),
)
NETWORK_VARIABLES = (*PROXIES, *CERTIFICATES, *NO_PROXY)
