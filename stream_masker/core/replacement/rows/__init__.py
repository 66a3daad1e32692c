"""The replacement engine for any taxonomy and any distance, whose candidates have frequencies.

* ``engine``: the ``Replacer``, which makes a row for each value and reference when it is needed.
* ``draw``: the rows, the choice of a level, and the draw of a candidate by its frequency.
"""
