"""The calibrator: merges the workers' counts, computes statistics, and publishes them with their drift.

``process`` starts the ``engine`` and the Faust application (``faust_app``), which joins the calibrators' group and
delivers blocks to the engine. While this process is active, the engine holds a ``session``: ``recovery`` reads the
state from the topics, the session merges blocks into the window, and ``publisher`` writes new versions. ``bootstrap``
samples the input topic until there is a first version. ``components`` builds what outlives a session, and ``metrics``
sets the metrics. The window and the versions themselves are in ``stream_masker.pipeline.calibration``.
"""
