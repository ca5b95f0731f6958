"""The formats that are written to files, and the table of all formats."""
