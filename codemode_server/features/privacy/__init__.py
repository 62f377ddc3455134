"""Detection of personal data in results and texts, and the tokens that stand for it.

The guardrail `personal_data` and the layer `Privacy` ask it. It needs the libraries of the extra `privacy`, and
of `privacy-names` where names are to be found in free text.
"""
