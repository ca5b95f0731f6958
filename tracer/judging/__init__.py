"""Judges a trace by determinism tables for one target: pure, from data to data."""

from tracer.judging.judgement import judge_calls, make_target

__all__ = ["judge_calls", "make_target"]
