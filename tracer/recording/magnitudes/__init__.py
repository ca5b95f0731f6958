"""How large results are at the places of a training step, and a run shaken by rounding."""
