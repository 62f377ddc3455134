"""Result types that are observed in calls and shown in stubs."""
