"""The disk a file lies on: a write-ahead log needs one of this machine."""

import logging
from pathlib import Path

from packhorse.errors import DurabilityNotMet

MOUNTS = Path("/proc/self/mounts")
REMOTE = frozenset(
    (
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "coda", "ceph", "glusterfs", "lustre", "gpfs", "beegfs",
        "orangefs", "gfs2", "ocfs2", "davfs", "vboxsf", "prl_fs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse",
        "fuse.goofys", "fuse.mount-s3", "fuse.blobfuse", "fuse.blobfuse2", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse",
        "fuse.juicefs", "fuse.davfs", "fuse.davfs2", "fuse.curlftpfs", "fuse.smbnetfs", "fuse.vmhgfs-fuse", "fuse.seaweedfs",
    )
)  # fmt: skip

_LOG = logging.getLogger("packhorse")


def refuse_remote(path: Path, *, put_up_with: bool) -> None:
    """Refuse a file that lies on another machine; with a warning if it is to be put up with."""
    kind = lies_on(path)
    if kind not in REMOTE:
        return
    lost = f"{path} lies on a network file system ({kind}), where locks and shared memory do not hold between machines"
    if not put_up_with:
        raise DurabilityNotMet(
            f"{lost}: put it on a local disk, use Redis or PostgreSQL, or add unsafe_network=yes to the address"
        )
    _LOG.warning(
        "%s (unsafe_network); no guarantee holds: jobs may be lost or run twice, and the file may be damaged", lost
    )


def lies_on(path: Path) -> str:
    """The kind of file system a path is on, or will be; None if it cannot be determined."""
    folder = next(parent for parent in path.resolve().parents if parent.exists())
    return file_system(folder, MOUNTS.read_text() if MOUNTS.exists() else "")


def file_system(folder: Path, mounts: str) -> str:
    """The kind of file system a folder is on, by the table of mounts; nothing if that does not tell."""
    found, depth = "", -1
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        mount = Path(point.replace("\\040", " "))
        if len(mount.parts) >= depth and folder.is_relative_to(
            mount
        ):  # of two at one place the later hides the earlier
            found, depth = kind, len(mount.parts)
    return found
