"""Every sentence of the contract has a conformance test of its name."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from packhorse.stores import contract

CONFORMANCE = Path(__file__).parents[1] / "conformance"


def promises() -> Iterator[tuple[str, str]]:
    """Each verb of the contract with each sentence of its docstring."""
    for group in ast.parse(inspect.getsource(contract)).body:
        if isinstance(group, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in group.bases):
            for verb in group.body:
                if isinstance(verb, ast.AsyncFunctionDef | ast.FunctionDef):
                    for sentence in sentences(ast.get_docstring(verb) or ""):
                        yield f"{group.name}.{verb.name}", sentence


def sentences(text: str) -> list[str]:
    """A sentence ends with a full stop at the end of a line or before a space."""
    return [" ".join(sentence.split()) for sentence in re.split(r"(?<=\.)(?=\s|$)", text) if sentence.strip()]


def named(sentence: str) -> str:
    """The name of the test of a sentence."""
    plain = sentence.lower().replace("'", "")
    return "test_" + re.sub(r"[^a-z0-9]+", "_", plain).strip("_")


def written() -> list[str]:
    """The names of all conformance tests."""
    return [
        part.name
        for path in sorted(CONFORMANCE.glob("test_*.py"))
        for part in ast.parse(path.read_text()).body
        if isinstance(part, ast.AsyncFunctionDef | ast.FunctionDef) and part.name.startswith("test_")
    ]


def test_every_verb_of_the_contract_makes_a_promise():
    verbs = {verb for verb, _ in promises()}

    assert {
        "Jobs.enqueue",
        "Jobs.exchange",
        "Records.put",
        "Streams.read",
        "Fleet.beat",
        "Store.wakes",
    } <= verbs


def test_every_sentence_of_the_contract_has_a_conformance_test():
    there = set(written())

    missing = [f"{verb}: {named(sentence)}" for verb, sentence in promises() if named(sentence) not in there]

    assert not missing, "no conformance test for\n" + "\n".join(missing)


def test_no_two_verbs_make_the_same_promise():
    counted = Counter(named(sentence) for _, sentence in promises())

    assert [name for name, count in counted.items() if count > 1] == []


def test_no_conformance_test_hides_another():
    assert [name for name, count in Counter(written()).items() if count > 1] == []
