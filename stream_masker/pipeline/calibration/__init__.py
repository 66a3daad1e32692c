"""Calibration: from counts of masked records to published statistics versions.

``blocks`` splits the counts of records into blocks that fit into messages. ``window`` keeps the sliding window over the
blocks of the calibration topic and decides when statistics are due. ``versions`` computes the next statistics version
from a window, with its drift and utility; ``history`` knows the versions on the statistics topic.
"""
