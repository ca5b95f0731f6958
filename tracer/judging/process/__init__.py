"""What the tables say of settings, seeds, memory and loaders."""
