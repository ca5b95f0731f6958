"""The process: its settings, its variables, and when they were set."""
