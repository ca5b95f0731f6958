"""What the project costs, each module a command; what holds its tables against the world is in ``evidence``."""
