"""Every private name of torch that the recorder leans on, each behind a feature test."""
