"""The decisions of the calibrator, as functions of what it has read.

``blocks`` splits the counts of a batch into blocks. ``window`` keeps the sliding window over the blocks and decides
when statistics are due. ``versions`` plans the next version with its drift and its utility.
"""
