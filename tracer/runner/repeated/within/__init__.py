"""A function run several times in this process, each time from the same state."""
