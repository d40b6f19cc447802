"""In the place of Infinity: says that it is ready, or not, as the model that it is given is called."""

import signal
import sys
from pathlib import Path

behaviour = Path(sys.argv[sys.argv.index("--model-id") + 1]).name
print("a line before", flush=True)
if behaviour == "dying":
    sys.exit("no such model")
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("INFO:     Uvicorn running on http://127.0.0.1:4711 (Press CTRL+C to quit)", file=sys.stderr, flush=True)
while True:
    signal.pause()
