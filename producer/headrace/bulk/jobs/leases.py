"""Which owners of shards show no sign of life any more, as one process sees it.

Pure: it is told what there is and what time it is, by this process's own clock. Does not know the bucket.
"""

from dataclasses import dataclass

from headrace.bulk.jobs.record import ShardRecord


@dataclass(frozen=True, slots=True)
class _Sight:
    """A beat as it was first seen, in which life of the watch, and when."""

    beat: tuple[int, int]
    life: int
    since_s: float


class Leases:
    """The leases of a job's shards. A lease runs out when its beat stands still for `lease_s` before our eyes."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._sights: dict[int, _Sight] = {}

    def has_run_out(self, record: ShardRecord, now_s: float, *, life: int, is_blind: bool) -> bool:
        """Whether the owner of this shard has shown no sign for long enough.

        Args:
            record: of a shard with an owner.
            now_s: by a clock that never jumps.
            life: another number whenever signs may have gone unseen, as while the broker was away and nobody could give
                any: then all have their full time again.
            is_blind: whether signs would go unseen now.
        """
        beat = record.term, record.beat
        sight = self._sights.get(record.shard)
        if is_blind or sight is None or (sight.beat, sight.life) != (beat, life):
            self._sights[record.shard] = _Sight(beat, life, now_s)
            return False
        return now_s >= sight.since_s + self._lease_s

    def forget(self, shard: int) -> None:
        """The shard has no owner to wait for."""
        self._sights.pop(shard, None)

    def next_end_s(self) -> float | None:
        """When the next one runs out, unless there is a sign; None if there is none."""
        return min((sight.since_s + self._lease_s for sight in self._sights.values()), default=None)
