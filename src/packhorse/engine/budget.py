"""How much one exchange carries, in bytes and in jobs."""

from packhorse.model import limits
from packhorse.model.lease import ClaimRequest, Exchange

MIN_BYTES = 64 << 10
SLOW_EXCHANGE_US = 2_000_000  # an exchange that takes longer keeps what ended meanwhile waiting, and is too large


class Budget:
    """Bytes to settle, and to lease, in one exchange: half as many after one that failed or was slow.

    ``jobs`` is how many jobs of the size seen last fit: an ask for more would let its first queue take all the bytes,
    whatever the weights of the others.
    """

    def __init__(self) -> None:
        self.bytes = limits.EXCHANGE_BYTES
        self.jobs = limits.ITEMS

    def shrink(self) -> None:
        """Carry less: an exchange failed, or was slow, and may have been too large."""
        self.bytes = max(self.bytes // 2, MIN_BYTES)

    def answered(self, ask: ClaimRequest | None, answer: Exchange, took: int) -> None:
        """Learn from an answer: how fast the store is, and how large jobs are if the ask may have met its bound."""
        if took > SLOW_EXCHANGE_US:
            self.shrink()
        elif self.bytes < limits.EXCHANGE_BYTES:
            self.bytes = min(self.bytes + self.bytes // 8, limits.EXCHANGE_BYTES)
        leases = answer.leases
        if ask is not None and leases and (self.jobs < limits.ITEMS or (answer.more and len(leases) < ask.total)):
            mean = sum([len(lease.payload) + len(lease.headers) for lease in leases]) // len(leases)
            self.jobs = max(1, min(self.bytes // max(mean, 1), limits.ITEMS))
