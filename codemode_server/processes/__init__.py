"""Infrastructure between processes: child processes, framing over pipes, and locks on files."""
