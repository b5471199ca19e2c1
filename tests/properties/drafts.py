"""What the machine asks for: small alphabets, so that ids, keys, lanes and records collide often.

All is drawn without a look at the store. Where it must fit what is there it is drawn as a stand-in (a JobDraft for a job,
CURRENT for the version a record has) that the machine fills in.
"""

import hashlib
from dataclasses import dataclass, fields

from hypothesis import strategies as st

from packhorse.model.effect import Publish, Put
from packhorse.model.ids import chosen_id
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, Retention, UniqueKey, Until, failure
from packhorse.model.lease import Share
from packhorse.model.limits import SECOND
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, On, Wait
from packhorse.model.reason import DeadReason, WaitReason

QUEUES = ("east", "west")
TASKS = ("cook", "bake")
LANES = {"narrow": 1, "wide": 2}
CHOSEN = tuple(chosen_id("machine", word) for word in ("x", "y", "z"))
KIND = "signal"
KEYS = ("left", "right")
STREAM = "news"
WORKERS = (b"worker number 1.", b"worker number 2.")
PARKED = (WaitReason.UNROUTABLE, WaitReason.INTERVENTION)
CURRENT = 1
BROKEN = failure("Broken", "it broke")


def number_of(serial: int, version: int = 7) -> bytes:
    """An id or token of its own, in no order, the same in every run."""
    raw = bytearray(hashlib.sha256(b"%d" % serial).digest()[:16])
    raw[6] = version << 4 | raw[6] & 0x0F
    return bytes(raw)


@dataclass(frozen=True)
class JobDraft:
    """A job to be made; ``chosen`` and ``parent`` count through ids that were used before, and the jobs there are."""

    queue: str = QUEUES[0]
    task: str = TASKS[0]
    priority: int = 10
    delay: int = 0
    at: int = 0
    lane: str | None = None
    children: int = 0
    unique: UniqueKey | None = None
    chosen: int | None = None
    parent: int | None = None

    def __repr__(self) -> str:
        given = [f"{it.name}={getattr(self, it.name)!r}" for it in fields(self) if getattr(self, it.name) != it.default]
        return f"JobDraft({', '.join(given)})"


def some(*values: object, none: int = 1) -> st.SearchStrategy:
    """One of the values, or more or less often None."""
    return st.sampled_from((None,) * (none * len(values)) + values)


SPANS = st.sampled_from((0, 0, 0, 0, 0, 0, 0, SECOND, 20 * SECOND, 600 * SECOND))
KEEPS = st.sampled_from((KEEP_DONE, Retention(0, 0), Retention(1, 3600 * SECOND), Retention(2, 10 * SECOND), KEEP_DEAD))
SCOPES = ((Until.FINISHED, 0), (Until.STARTED, 0), (Until.WINDOW, 15 * SECOND))
UNIQUES = some(*(UniqueKey(key, *scope) for key in ("p", "q", "r") for scope in SCOPES), none=3)
JOB_DRAFTS = st.builds(
    JobDraft,
    queue=st.sampled_from((*QUEUES, QUEUES[0])),
    task=st.sampled_from(TASKS),
    priority=st.sampled_from((10, 5)),
    delay=SPANS,
    at=st.sampled_from((0, 0, 0, 0, 0, -SECOND, SECOND)),
    lane=some(*LANES, "narrow"),
    children=st.sampled_from((0,) * 10 + (1, 2)),
    unique=UNIQUES,
    chosen=some(0, 1, 2, 3, 4, none=2),
    parent=some(0, 1, 2, 3),
)
PUTS = st.builds(
    Put,
    st.just(KIND),
    st.sampled_from(KEYS),
    st.sampled_from((b"1", b"2", None)),
    expect=st.sampled_from((None, 0, CURRENT, 7)),
    expires=st.sampled_from((0, 0, 20 * SECOND)),
)
PUBLISHES = st.builds(Publish, st.just(STREAM), st.sampled_from((b"1", b"2")))
EFFECTS = st.one_of(
    st.just(()), st.lists(st.one_of(JOB_DRAFTS, PUTS, PUBLISHES), max_size=3, unique_by=type).map(tuple)
)
WAITS = st.sampled_from((
    *(Wait(reason, detail="why") for reason in PARKED),
    *(Wait(WaitReason.CHILDREN, children=count) for count in (1, 2)),
    *(Wait(WaitReason.SIGNAL, On(KIND, key, after)) for key in KEYS for after in (0, CURRENT)),
))  # fmt: skip
OUTCOMES = st.one_of(
    st.builds(Done, st.sampled_from((None, b"1", b'"soup"')), KEEPS),
    st.builds(Again, SPANS, some(BROKEN), st.booleans()),
    WAITS,
    st.builds(Dead, st.sampled_from((DeadReason.FINAL, DeadReason.EXHAUSTED)), st.just(BROKEN), KEEPS),
    st.sampled_from((Held(1), Held(2), Held(3))),
    st.builds(Cancelled, KEEPS),
)
DEEDS = st.lists(st.tuples(OUTCOMES, EFFECTS), min_size=1, max_size=3)
SHARES = st.lists(
    st.builds(
        lambda queue, count, extra: Share(queue, count, None if extra is None else count + extra),
        st.sampled_from(QUEUES),
        st.sampled_from((3, 1, 0, 2)),
        some(0, 1),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda share: share.queue,
).map(tuple)
