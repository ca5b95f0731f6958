"""What calls were called with: their form always, the data where that was asked for."""
