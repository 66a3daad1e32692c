"""What masking preserves and what it discloses, measured for many methods on a data set. It needs an extra.

``dataset`` holds the records, ``measurement`` measures mechanisms on them and chooses one within limits, and ``report``
writes the page.
"""
