"""Datagrams from one place to another, counted where they arrive: UDP repeats none, so what is lost is seen."""

import subprocess
import sys

from survival.place import Place

_PORT = 5000
_LISTEN = """
import socket, sys
listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# All may have to wait: what does not fit would be lost here.
listening.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
listening.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
count = 0
for line in sys.stdin:
    # All that will arrive has arrived: the sender has ended, and a link holds nothing back for longer than this.
    listening.settimeout(float(line))
    try:
        while listening.recv(2048):
            count += 1
    except TimeoutError:
        print(count, flush=True)
"""
_SEND = """
import socket, sys
sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[3])):
    sending.sendto(bytes(int(sys.argv[4])), (sys.argv[1], int(sys.argv[2])))
"""


def heard(from_: Place, to: Place, num: int = 1, size: int = 100, quiet_s: float = 0.1) -> int:
    """How many of so many datagrams arrive, the last one at most `quiet_s` after the one before it."""
    pipe = subprocess.PIPE
    where = (to.address, str(_PORT))
    listen = to.command(sys.executable, "-I", "-c", _LISTEN, *where)
    with subprocess.Popen(listen, stdin=pipe, stdout=pipe, text=True) as listening:
        assert listening.stdin is not None
        assert listening.stdout is not None
        assert listening.stdout.readline() == "ready\n"
        subprocess.run(from_.command(sys.executable, "-I", "-c", _SEND, *where, str(num), str(size)), check=True)
        listening.stdin.write(f"{quiet_s}\n")
        listening.stdin.close()
        return int(listening.stdout.readline())
