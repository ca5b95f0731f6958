"""The table of settings held against this very process: no trace, no op, no device started."""
