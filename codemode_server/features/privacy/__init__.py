"""Detection of personal data in results and texts, and the tokens that stand for it.

It hooks in as a layer of calls (`call_privacy`), where listings become the catalog (`protected_listings`) and as a
layer of executions (`shown_files`); the guardrail `personal_data` asks it too. It needs the libraries of the extra
`privacy`, and of `privacy-names` where names are to be found in free text.
"""
