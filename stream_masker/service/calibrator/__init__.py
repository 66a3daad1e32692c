"""The calibrator: merges the workers' counts, computes statistics, and publishes them with their drift.

``process`` runs a Faust application: an agent for the blocks and a timer. While the partition is assigned to it, it
drives one ``calibration.Calibration``, which ``bootstrap`` restores from the topics, or begins from a sample of the
input. It sets the metrics, too. The window and the versions themselves are in ``stream_masker.pipeline``.
"""
