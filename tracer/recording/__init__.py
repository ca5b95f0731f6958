"""Recording: the dispatch mode, where a call came from, what it was called with, the process's settings."""
