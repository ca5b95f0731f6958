"""Random generators and the origin of their states; data loaders and their workers."""
