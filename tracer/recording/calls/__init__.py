"""What a call was: groups, facts, draws, modules, and whom it belongs to."""
