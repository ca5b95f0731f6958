"""Generators and where their state came from; loaders and their workers."""
