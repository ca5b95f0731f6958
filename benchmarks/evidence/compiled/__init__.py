"""Small compiled programs, each with a twin: one holds a call that may vary, the other holds none."""
