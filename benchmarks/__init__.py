"""Measures every budget of the design in one run, as ratios wherever there is a peer. `make bench`."""
