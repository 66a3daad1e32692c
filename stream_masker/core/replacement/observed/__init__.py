"""The replacement engine whose candidates are the concepts of a window.

* ``frequencies``: the concepts and their frequencies.
* ``rows``: what the engine for other taxonomies keeps of each value and reference: candidates by distance, and levels
  as sets of bits.
* ``draw``: the choice of a level, and the draw of a candidate by its frequency.
* ``engine``: the ``Replacer`` for any taxonomy and any distance, which makes rows when they are needed.
"""
