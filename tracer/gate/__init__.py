"""What a continuous-integration job accepts: the baseline, comments in the code, the configuration."""
