"""Workflows: YAML files that are compiled to programs. There is no second engine: a workflow runs as a program does.

It hooks in where programs import (`workflows.<name>`), and as the command `workflow`.
"""
