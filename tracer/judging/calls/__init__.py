"""What the tables say of each recorded call."""
