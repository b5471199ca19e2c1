"""A file to which processes note what they were answered, so that it is known after they were killed."""

import os
from pathlib import Path

ROOM = 1 << 16
END = "."


class Ledger:
    """Records of words, appended by many processes and read by one, each record once.

    A kill may cut a record short: so each begins on a line of its own and ends with a mark, and one without is passed over.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._read = 0
        self._rest = b""

    def note(self, *records: str) -> None:
        """Append records, all with one write."""
        os.write(self._file, "".join(f"\n{record} {END}\n" for record in records).encode())

    def fresh(self) -> list[list[str]]:
        """The records that were not answered before."""
        data = self._rest
        while more := os.pread(self._file, 1 << 20, self._read):
            self._read += len(more)
            data += more
        whole, self._rest = data[: data.rfind(b"\n") + 1], data[data.rfind(b"\n") + 1 :]
        return parse(whole)

    def all(self) -> list[list[str]]:
        """Every record from the first on."""
        return parse(self._path.read_bytes())

    def last(self) -> list[list[str]]:
        """The latest records: more than a producer writes about what it enqueues at once."""
        data = os.pread(self._file, ROOM, max(0, os.fstat(self._file).st_size - ROOM))
        return parse(data[data.find(b"\n") :])


def parse(data: bytes) -> list[list[str]]:
    """The whole records of a text."""
    lines = (line.split() for line in data.decode(errors="replace").splitlines())
    return [line[:-1] for line in lines if line and line[-1] == END]
