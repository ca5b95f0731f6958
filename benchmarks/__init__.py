"""What the project is measured by; each module is a command."""
