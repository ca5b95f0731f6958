"""A script run several times with values, as it stands and under other circumstances, and held against itself.

Importing this package does not import torch: the runs are processes of their own.
"""
