"""The report of an evaluation: one HTML page that needs no other file.

``svg`` and ``charts`` draw the pictures, ``page`` writes sections of tables and figures as HTML, and the other modules
make the sections: ``overview`` (data, utility against risk), one for each family of methods (``noise``, ``swaps``,
``groups``, ``transitions``), and ``document``, which puts them together. Everything is a function of the measures
alone: equal measures give equal bytes.
"""
