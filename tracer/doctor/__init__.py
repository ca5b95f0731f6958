"""The table of settings held against this very process: no trace, no op, no device started."""

from tracer.doctor.diagnosis import Checked, Diagnosis, Outlook, diagnose

__all__ = ["Checked", "Diagnosis", "Outlook", "diagnose"]
