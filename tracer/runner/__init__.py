"""Runs a training script as Python would, with the recorder around chosen steps.

Importing this package does not import torch: the script may set variables that torch reads as it loads.
"""

from tracer.runner.running import run_script
from tracer.runner.steps import Steps

__all__ = ["Steps", "run_script"]
