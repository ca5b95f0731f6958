"""Runs a training script as Python would, with the recorder around chosen steps."""
