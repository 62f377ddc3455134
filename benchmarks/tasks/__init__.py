"""Tasks on published servers, solved by fixed calls and programs in each arm: `make bench-tasks` writes TASKS.md."""
