"""What the tests of several rooms need."""
