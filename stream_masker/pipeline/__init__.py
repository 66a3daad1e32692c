"""The masking of records without input or output: decoding, masking, rendering, counting.

* ``plan``: the part of the configuration that decides masking, parsed and checked. ``paths`` and ``path_trie`` parse
  the paths into records.
* ``masker``: the record masker. It gives every record one outcome (``records``), or rejects it for one of ``reasons``.
* ``codec``: JSON bytes to codes and back. ``fields`` and ``pseudonyms`` treat all other fields, ``style`` writes a
  masked code like the original one, and ``envelope`` treats keys and headers of messages.
* ``packing`` masks several partitions in one call; ``groups`` masks records that belong together.
* ``calibration``: the window of the calibrator, and the versions of the statistics.
* ``wire``: the messages between the processes.
"""
