"""torch's launcher: which of its functions waits for a time that it draws. Imports no torch."""

#: The module and its function, which asks ``random.uniform`` (torch 2.4 to 2.13).
LAUNCHER, LAUNCHER_WAITS = "torch.distributed.elastic.rendezvous.utils", "_delay"
