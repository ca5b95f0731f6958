"""Facts that are noted of a call where they hold, and left out where they do not."""
