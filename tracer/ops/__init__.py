"""What the program knows of single ops beyond their schemas, one row each."""
