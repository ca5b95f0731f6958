"""The cause of a root, with what the recordings and the tables say of it."""
