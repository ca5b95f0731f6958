"""``tracer.reproducible`` and the seeding behind it."""
