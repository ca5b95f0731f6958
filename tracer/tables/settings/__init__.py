"""The table of settings: what no op shows."""
