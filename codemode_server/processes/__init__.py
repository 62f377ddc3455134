"""Infrastructure between processes: child processes and their end, framing over pipes, and locks on files."""
