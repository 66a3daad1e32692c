"""What all tests share."""

from hypothesis import settings

settings.register_profile("compiled", deadline=None, print_blob=True)
settings.load_profile("compiled")
"""No deadline: the first call of a compiled kernel compiles it."""
