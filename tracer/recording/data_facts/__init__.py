"""What the data of a call settle: places written once, sums that are exact, orders without ties. It reads values."""
