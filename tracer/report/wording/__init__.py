"""The sentences that several formats share."""
