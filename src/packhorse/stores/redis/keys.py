"""Names of keys: all keys of a namespace share a hash tag, and so a slot of a cluster."""

from packhorse.errors import InvalidName


def tag_of(namespace: str) -> str:
    """Return the hash tag that every key of a namespace begins with."""
    if "{" in namespace or "}" in namespace:
        raise InvalidName("namespace", namespace, "braces mark the slot of a key in Redis; leave them out")
    return f"{{packhorse:{namespace}}}"


def key_of(tag: str, kind: str, name: str | None = None) -> str:
    """Return the key of a kind, or the key of one thing of this kind."""
    return f"{tag}:{kind}" if name is None else f"{tag}:{kind}:{name}"


def raw_key_of(tag: str, kind: str, name: bytes) -> bytes:
    """Return the key for a name in bytes: names that other programs made may not be UTF-8."""
    return f"{tag}:{kind}:".encode() + name
