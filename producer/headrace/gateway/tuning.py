"""How the process of a gateway shares its time, so that the event loop has its turns.

Knows Python's collector, Python's lock and the threads of the Rust tokenizer. Does not know requests.
"""

import gc
import os
import sys
import threading

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

# Seconds that a thread may keep Python's lock once the event loop wants it. By default it is 5 ms, and while a thread
# tokenises a request each step of another one waits for so long: the loop gives the lock up whenever it sends.
_SWITCH_S = 0.0005
_NICER = 5


def tune() -> None:
    """Set this process up; to be called once, when all is loaded and nothing has been tokenised."""
    sys.setswitchinterval(_SWITCH_S)
    # What is loaded now stays for good; to look through all of it takes the collector 80 ms, with Python's lock held.
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":  # elsewhere a priority is the whole process's
        thread = threading.Thread(target=_start_tokenizing)
        thread.start()
        thread.join()


def _start_tokenizing() -> None:
    """Have the tokenizer start its threads, one a core; they take over the priority of the thread that has them start.

    So, where all cores are busy, they make way for the event loop. A single text is tokenised without them.
    """
    own = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + _NICER)
    Tokenizer(WordLevel({"a": 0}, "a")).encode_batch(["a"] * 64)
