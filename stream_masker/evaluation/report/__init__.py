"""The report of an evaluation: one self-contained HTML page.

``svg`` and ``charts`` draw the pictures. ``page`` writes sections of tables and figures as HTML. The sections come from
``overview`` (verdict, data, utility against risk) and from ``papers`` (the tables and figures of the papers);
``document`` puts them together. The page depends on the measures alone: equal measures give equal bytes.
"""
