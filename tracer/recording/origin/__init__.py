"""Where a call came from: phase, module, site, and the forward call of a backward one."""
