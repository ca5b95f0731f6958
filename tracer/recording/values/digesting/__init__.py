"""One tensor's digest: on the host by xxh3, on a device by a sum of mixed words."""
