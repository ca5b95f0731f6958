"""Every private name of torch that the recorder leans on, each behind a feature test. Imports no torch itself."""

#: torch's launcher: the module, and its function that waits for a time it draws by ``random.uniform`` (2.4 to 2.13).
LAUNCHER, LAUNCHER_WAITS = "torch.distributed.elastic.rendezvous.utils", "_delay"
