"""Where people already are: pytest, Lightning, Transformers. Each module imports its host; none is imported here."""
