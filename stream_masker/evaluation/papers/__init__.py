"""The papers' experiments on generated data, compared with the figures that the papers print.

``printed`` holds the printed figures, and the reasons for differences. ``samples`` generates data sets like those of
the papers. ``reproduction`` compares both, with one function for each paper.
"""
