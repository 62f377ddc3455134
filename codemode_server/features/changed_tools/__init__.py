"""Tools that changed since a person accepted them: refused or warned of until reviewed."""
