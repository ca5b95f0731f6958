"""What the HTML page shows."""
