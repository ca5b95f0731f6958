"""The program's source code: where a seed comes from. Imports no torch."""
