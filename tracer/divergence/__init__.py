"""Two recordings with values: where they diverge, the cause of each root, and what merely follows."""
