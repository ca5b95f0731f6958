"""What a rule's condition may read of a call: each fact's name, its values, and what reads it."""
