"""What a report says: each section as typed blocks, once for all formats."""
