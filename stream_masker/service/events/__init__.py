"""Events for the input topic: read from files, or synthetic.

``publishing`` sends the events of a file, or those that ``synthetic`` makes of the codes that ``codes`` draws.
"""
