"""Disclosure risk, as reductions of the joint law of values and masks.

``law``: what mechanisms tell of their masks, and random records. ``risk``: the figures, and the least that masking must
change. ``sensitive``: sets of concepts that must not be disclosed.
"""
