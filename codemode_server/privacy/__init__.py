"""Detection of personal data in results and texts: kinds, findings, and the evidence for each.

This is the base of data protection and not yet a part of calls: nothing in the product asks it so far.
"""
