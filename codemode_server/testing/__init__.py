"""In-memory implementations of contracts, for tests of users and of the project."""
