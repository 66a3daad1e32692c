"""Events for the input topic: read from files, or synthetic.

``produce`` publishes the events of a file, which ``files`` reads; ``simulate`` publishes or writes those of
``synthetic``, whose codes ``synthetic_codes`` draws. ``publishing`` sends events to Kafka, and ``event_builder`` builds
events from columns for both.
"""
