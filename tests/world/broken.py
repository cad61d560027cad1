"""What a world is looked at for."""


class Broken(AssertionError):
    """A guarantee does not hold."""
