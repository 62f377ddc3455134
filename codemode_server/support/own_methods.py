"""Which methods of a base class an object has itself: a hook that it does not have need not be called."""


def own_methods(thing: object, base: type) -> frozenset[str]:
    """Names of the methods of `base` that the class of `thing`, which is below it, does not have from it."""
    return frozenset(name for name in vars(base) if getattr(type(thing), name) is not getattr(base, name))
