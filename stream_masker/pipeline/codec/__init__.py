"""Codecs: JSON records to attribute codes, and masked codes back to JSON.

``base`` is the contract of a codec and ``decoded`` its result. ``reference`` is the literal implementation and
``scanner`` the compiled one. ``fallback`` combines both: the scanner reads the records that it covers, and the
reference codec reads all others. The remaining modules are shared by the two.
"""
