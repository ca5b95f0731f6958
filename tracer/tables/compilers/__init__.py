"""What compilers make of ops: a table of its own for each, beside those of backends."""
