"""What is said of several runs that were compared by their values."""
