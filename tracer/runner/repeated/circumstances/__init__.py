"""What may differ between two runs without a change of the program: declared, varied and held."""
