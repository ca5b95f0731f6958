"""Calls replayed on the spot with the same inputs and generator states; what the data of calls settle."""
