"""Checks of what the evidence is gathered with, and that what is kept holds; ``make test`` runs them too."""
