"""What Packhorse itself stores in the headers of a job: a chosen id's text, options of the call, results it waits for."""

from enum import StrEnum

import msgspec

from packhorse.errors import UndecodablePayload
from packhorse.jobs.options import NO_OPTIONS, JobOptions
from packhorse.model.ids import JobId, child_ids

_MARK = b'"packhorse":'


class OnFailure(StrEnum):
    """What a failed, cancelled or dropped child means for the job that waits for it: it fails too, or goes on without."""

    FAIL = "fail"
    SKIP = "skip"
    NONE = "none"


class ResultBinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job takes the results of its children: under which parameter, as one value or as a list, of how many.

    ``sizes`` are given where each child leaves a list: how many values the list has. ``after`` says that these children come
    after another one, whose result they take.
    """

    name: str
    children: int = 1
    many: bool = False
    sizes: tuple[int, ...] = ()
    on_failure: OnFailure = OnFailure.FAIL
    after: bool = False

    def parts(self, job: JobId) -> list[JobId]:
        """The jobs whose results a job takes, in order; instead of children that only collect results, their children."""
        children = child_ids(job, self.after + self.children)
        if not self.sizes:
            return children
        before, collecting = children[: self.after], children[self.after :]
        return before + [
            part for child, size in zip(collecting, self.sizes, strict=True) for part in child_ids(child, size)
        ]


class JobMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header ``packhorse``: the text of a chosen id, options of the call, the results it waits for."""

    id: str | None = None
    options: JobOptions = NO_OPTIONS
    results: ResultBinding | None = None


class _Headers(msgspec.Struct):
    packhorse: JobMetadata = JobMetadata()


_DECODER = msgspec.json.Decoder(_Headers)
NO_METADATA = JobMetadata()


def metadata_of(headers: bytes) -> JobMetadata:
    """Read our own part of stored headers; most jobs have none, and finding that out is cheap."""
    if _MARK not in headers:
        return NO_METADATA
    try:
        return _DECODER.decode(headers).packhorse
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UndecodablePayload(f"The headers of the job cannot be read: {error}") from error
