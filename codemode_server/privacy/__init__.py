"""Detection of personal data in results and texts: kinds, findings, and the evidence for each.

The guardrail `personal_data` asks it about the arguments of calls. It needs the libraries of the extra `privacy`.
"""
