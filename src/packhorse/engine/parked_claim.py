"""The claim that an idle worker parks at a store that can wait for work (``Store.parked_claims``).

While it is parked the worker makes no other claim: a store remembers the last one of a worker, so that it can be repeated,
with the same leases for an answer, if its own was missed.
"""

import msgspec

from packhorse.model.lease import ClaimRequest
from packhorse.stores.contract import WorkListener

PARKED_MAX_US = 2_000_000  # until a parked claim is answered, or missed


class ParkedClaim:
    """At most one parked claim; ``missed`` says that its answer will not come by itself."""

    def __init__(self, listener: WorkListener | None) -> None:
        self._listener = listener
        self.claim: ClaimRequest | None = None
        self.parked_at = 0
        self.missed = False

    @property
    def wanted(self) -> bool:
        """Whether the store takes a claim and has none."""
        return self._listener is not None and self.claim is None

    def park(self, claim: ClaimRequest, now: int) -> None:
        """Park a claim that is wanted, if the store waits for work at this moment."""
        assert self._listener is not None
        if self._listener.park(claim):
            self.claim, self.parked_at = claim, now

    def miss(self) -> None:
        """Note that the wait is over without an answer: a claim that is still parked has to be made again."""
        self.missed = self.claim is not None
        if self.claim is not None and not self.claim.again:
            self.claim = again(self.claim)

    def clear(self) -> None:
        """Note that the claim was answered."""
        self.claim, self.missed = None, False


def again(claim: ClaimRequest, max_bytes: int | None = None) -> ClaimRequest:
    """Mark a claim as repeated: the store may still receive its first copy, and must not answer that one anew."""
    return msgspec.structs.replace(claim, again=True, max_bytes=max_bytes or claim.max_bytes)
