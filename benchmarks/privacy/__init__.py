"""How well and how fast personal data is found: `make bench-privacy` writes benchmarks/PRIVACY.md."""
