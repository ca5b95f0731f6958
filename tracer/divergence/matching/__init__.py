"""Which call of one recording stands against which of the other, in what they differ, and what explains it."""
