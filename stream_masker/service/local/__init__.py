"""Masking and calibration of files, without a broker: ``files``, with ``groups`` for mechanisms that need groups."""
