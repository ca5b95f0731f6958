"""Graphs from AOTAutograd: their calls, facts, distinct indices and uninitialized memory."""
