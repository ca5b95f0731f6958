"""What proves a table."""
