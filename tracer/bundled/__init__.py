"""Training code that ships with the tracer, as a user would write it; it knows nothing of the tracer."""
