"""Asks a person to approve single calls: what the question says, over which channels it goes, what an answer covers."""
