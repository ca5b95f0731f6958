"""One finding's call as a program of its own, which makes it again and counts its results."""
