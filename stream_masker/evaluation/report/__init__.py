"""The report of an evaluation: one self-contained HTML page.

``svg`` and ``charts`` draw the pictures. ``page`` writes sections of tables and figures as HTML. The sections come from
``overview`` (verdict, data, utility against risk) and from one module for each family of methods (``noise``,
``groups`` for the methods of 2012, 2013 and 2019); ``document`` puts them together. The page depends on the
measures alone: equal measures give equal bytes.
"""
