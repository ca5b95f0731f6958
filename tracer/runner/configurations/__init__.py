"""Two configurations of one script or step, run and shaken, for ``divergence.magnitudes`` to compare."""
