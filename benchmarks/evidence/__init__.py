"""What holds the tables against the world: calls by subject, builds of torch, devices, other packages' suites."""
