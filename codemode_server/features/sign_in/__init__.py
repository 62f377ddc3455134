"""Sign-ins that are offered to the person while a call waits."""
