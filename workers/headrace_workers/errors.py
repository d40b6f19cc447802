"""Why a worker refuses to start, or has to end.

    WorkerError
    ├── ServerUnreachable    no nats-server answers at the URL
    ├── AccessRefused        it does not take the credentials, or does not let their user do what a worker does
    ├── ServerUnfit          it is too old, or runs without JetStream
    ├── BudgetUnfit          the token budgets do not go with the largest chunk, or that with the server
    ├── TopologyConflict     a NATS stream or consumer stands there with settings this worker cannot live with
    ├── SpecConflict         the fleet serves another model under this name
    ├── DeviceFailed         the device fails on what any device can run
    ├── Stopping             it is about to end, and takes no work again
    ├── AddressUnfit         a monitor cannot listen at its address
    └── StoreFailed          a calibration cannot be kept

What happens to a chunk is never an exception out of here: it is an error code in a reply (contracts).
"""


class WorkerError(Exception):
    """Base of what this package raises. The text tells what to change."""


class ServerUnreachable(WorkerError):
    """Raised when no nats-server answers at the URL."""


class AccessRefused(WorkerError):
    """Raised when nats-server does not take the credentials, or does not let their user do what a worker does."""


class ServerUnfit(WorkerError):
    """Raised when the nats-server is too old or runs without JetStream."""


class BudgetUnfit(WorkerError):
    """Raised when the token budgets cannot hold the largest chunk, or the server cannot carry it."""


class TopologyConflict(WorkerError):
    """Raised when what stands in the broker differs in a setting that decides correctness."""


class SpecConflict(WorkerError):
    """Raised when the fleet already serves another model under this name."""


class DeviceFailed(WorkerError):
    """Raised when the device fails even on a step of one token: it is the device, not the work."""


class Stopping(WorkerError):
    """Raised when a worker that is about to end is told to take work again."""


class StoreFailed(WorkerError):
    """Raised when a calibration cannot be written to where calibrations are kept."""


class AddressUnfit(WorkerError):
    """Raised when a monitor cannot listen where it was told to."""
