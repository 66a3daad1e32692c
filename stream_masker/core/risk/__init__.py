"""Disclosure risk: what an attacker learns, computed from the joint distribution of values and masks.

``law``: the probabilities of masks, which mechanisms state, and random records. ``risk``: the figures, also those of
sensitive groups of concepts.
"""
