"""What sessions have read, and rules on where it may go."""
