"""The names of keys. All of one namespace share a tag, and so one slot of a cluster; scripts build theirs alike."""

from packhorse.errors import InvalidName


def tag_of(namespace: str) -> str:
    """What every key of a namespace begins with."""
    if "{" in namespace or "}" in namespace:
        raise InvalidName("namespace", namespace, "braces mark the slot of a key in Redis; leave them out")
    return f"{{packhorse:{namespace}}}"


def key_of(tag: str, kind: str, name: str | None = None) -> str:
    """The key of a kind of thing, or of the one with this name."""
    return f"{tag}:{kind}" if name is None else f"{tag}:{kind}:{name}"
