"""A function for programs of these tests: a call whose failure does not end the program."""

ATTEMPT = """def attempt(call, **arguments):
    try:
        call(**arguments)
    except ToolError:
        pass
"""
