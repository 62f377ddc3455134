"""The permission policy that decides on each call, its steps, and refusals that always apply."""
