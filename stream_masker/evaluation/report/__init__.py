"""The report of an evaluation: one self-contained HTML page.

``svg`` and ``charts`` draw the pictures. ``page`` writes sections of tables and figures as HTML. The sections come from
``overview`` (data, utility against risk) and from one module for each family of methods (``noise``, ``swaps``,
``groups``, ``transitions``); ``document`` puts them together. The page depends on the measures alone: equal measures
give equal bytes.
"""
