"""The table of settings, seeds, memory and data loading, which no op shows."""
