"""What masking preserves and what it discloses, measured for many methods on a data set. It needs an extra.

``dataset`` holds the records, ``candidates`` the mechanisms with their parameters, ``measurement`` measures them and
chooses one within limits, and ``report`` writes the page.
"""
