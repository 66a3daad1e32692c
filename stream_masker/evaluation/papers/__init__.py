"""The papers' experiments on data that can be generated, beside the figures that the papers print.

``printed`` holds the printed figures, ``samples`` generates data sets like those of the papers, and ``reproduction``
compares both, one function for each paper.
"""
