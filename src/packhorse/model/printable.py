"""Text that is shown on a terminal, without what the terminal would take for a command."""


def printable(text: str, keep: str = "") -> str:
    """Escape every character that is not printable, as Python writes it; those in ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)
