"""Asks a person to approve single calls: what the question says, over which channels it goes, what an answer covers.

It hooks in as the approver of `calls.steps.Approval`; its channels are forms of the host, the pages and the terminal.
"""
