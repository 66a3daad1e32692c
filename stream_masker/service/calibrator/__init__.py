"""The calibrator: merges the workers' counts, computes statistics, and publishes them with their drift.

``process`` starts the ``engine`` and the Faust application (``faust_app``), which joins the calibrators' group and
delivers blocks to the engine. While this process is active, the engine holds a ``session``: ``bootstrap`` reads the
state from the topics, or samples the input topic until there is a first version, and the session merges blocks into the
window. ``components`` builds what outlives a session, also the publisher of new versions, and ``metrics``
sets the metrics. The window and the versions themselves are in ``stream_masker.pipeline.calibration``.
"""
