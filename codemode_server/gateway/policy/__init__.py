"""What the person permits: the policy that decides on each call, its steps, and what is refused in any case."""
