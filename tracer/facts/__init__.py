"""Facts of a call that a rule's condition may use: each fact's name, its values, and its reader."""
