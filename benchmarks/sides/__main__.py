"""``python -m benchmarks.sides NAME setup|fill|pace|left|limits|work``: one part of a trial, in the environment of the side."""

import importlib
import json
import sys

from benchmarks.sides import side
from benchmarks.sides.order import given

PARTS = {"setup": side.setup, "fill": side.fill, "pace": side.pace, "left": side.left, "limits": side.limits}

name, part = sys.argv[1:]
made: side.Side = importlib.import_module(f"benchmarks.sides.{name}").Here(given())
if part == "work":
    made.work()
else:
    print(json.dumps(made.run(PARTS[part](made))))
