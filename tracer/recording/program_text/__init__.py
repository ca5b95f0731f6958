"""What is read in the text of the program's code: where a seed comes from, which sets are walked. Imports no torch."""
