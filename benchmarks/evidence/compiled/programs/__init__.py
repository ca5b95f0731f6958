"""The programs, by subject. They are a user's code: typed as such, and read by nothing else."""
