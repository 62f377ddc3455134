"""Tools that changed since a person accepted them: refused or warned of until reviewed.

It hooks in as a layer of calls (`call_layer`) and where listings become the catalog (`visible_listings`).
"""
