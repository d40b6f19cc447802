"""Exit code 0 if a page of this host answers 200, 1 if not: the HEALTHCHECK of an image that has no curl.

Usage: health.py PORT [PATH]; the path is /health/ready unless it is given. Needs nothing but Python.
"""

import http.client
import sys

_TIMEOUT_S = 3


def main(port: str, path: str = "/health/ready") -> int:
    """Ask once; say what came instead of 200."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(1000).decode(errors="replace")
    except OSError as error:
        sys.stderr.write(f"port {port} of this container does not answer: {error}\n")
        return 1
    sys.stdout.write(body)
    return 0 if response.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
