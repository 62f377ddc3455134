"""The pages of `codemode-server ui`: what ran, what waits for the person, the servers and the permissions."""
