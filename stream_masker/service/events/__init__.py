"""Synthetic events for the input topic.

``codes`` draws codes, ``synthetic`` makes events of them, and ``publishing`` publishes these or writes them to a file.
"""
