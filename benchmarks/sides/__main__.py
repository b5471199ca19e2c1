"""``python -m benchmarks.sides NAME fill|pace|work``: one part of a trial, in the environment of the side."""

import importlib
import json
import sys

from benchmarks.sides import side
from benchmarks.sides.order import given

name, part = sys.argv[1:]
made: side.Side = importlib.import_module(f"benchmarks.sides.{name}").Here(given())
if part == "work":
    made.work()
else:
    print(json.dumps(side.run(side.fill(made) if part == "fill" else side.pace(made))))
