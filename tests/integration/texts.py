"""Arguments as programs in other languages may write them: those that every store refuses, and those that it takes."""

_VALUES = (
    b"NaN", b"-Infinity", b"inf", b"0x10", b"007", b"-01", b"1.", b".5", b"+1", b"1e", b"1.e5", b"1_0", b"-", b"--1", b"1 2",
    b'"\xff"', b'"a\0b"', b'"a\nb"', b'"a\tb"', b'"\xc0\x80"', b'"\\ud800"', b'"\\x41"', b'"\\u12"', b'"\\v"', b"'a'",
    b"True", b"tru", b"[1,]", b'{"a":1,}', b"{a:1}", b"/*c*/1",
)  # fmt: skip
REFUSED = (
    *(b'{"x":' + value + b"}" for value in _VALUES), b"", b"[]", b"{}x", b"{}\0", b"{}\0x", b"\xef\xbb\xbf{}", b"\x0b{}",
    b"\xc2\xa0{}", b'{"a":1}{"b":2}',
)  # fmt: skip
TAKEN = (
    b"{}", b'{"x": [0, -0, 1.5, -10.25e-05, 1E+9, true, false, null, 100]}', b'{\n\t"x": "a\\nb \\" 007 NaN \\\\"}',
    '{"é": "ü€😀"}'.encode(), b'{"x": "0x10 .5 1."}', b'{"e": {"E": ["+", "-"]}}', b'{"x": "\\u0000\\ud83d\\ude00"}', b" {} ",
)  # fmt: skip

# Task and options whose names are kept for Packhorse itself, and such that only resemble them.
RESERVED = (
    ("packhorse.collect", "{}"),
    ("packhorse.mine", "{}"),
    ("t", '{"queue": "packhorse.system"}'),
    ("t", '{"queue": "packhorse.mine", "priority": 1}'),
)
NOT_RESERVED = (
    ("packhorse", "{}"),
    ("packhorses.run", '{"queue": "Packhorse.system"}'),
    ("t", '{"queue": "my.packhorse.", "key": "packhorse.lane"}'),
)
