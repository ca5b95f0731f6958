"""Blocks drawn: page, terminal, Markdown."""
