"""What ``torch.compile`` made."""
