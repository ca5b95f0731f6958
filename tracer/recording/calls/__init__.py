"""Calls: groups, facts, draws, and the forms of their arguments."""
