"""One finding's call as a program of its own, which makes it again and counts its results."""

from tracer.one_call.program import Program, chosen_finding, program_of

__all__ = ["Program", "chosen_finding", "program_of"]
