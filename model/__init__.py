"""Executable models: what a model is, the guards of its actions, and liveness."""

if __name__ != "highwater.model":
    raise ImportError("this package is highwater.model: write `import highwater.model` in place of `import model`")

from highwater.model.core import Bounds, Exploration, Model, Process, State, Step, broken, init, moves, witnessed

__all__ = ["Bounds", "Exploration", "Model", "Process", "State", "Step", "broken", "init", "moves", "witnessed"]
