"""What is built once per process, between the configuration and the server."""
