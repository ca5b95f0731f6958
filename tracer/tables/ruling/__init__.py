"""What the tables say of one call, for one target."""
