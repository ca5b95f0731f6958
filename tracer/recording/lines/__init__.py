"""Which line of the program changed which value."""
