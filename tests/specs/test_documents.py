import math
from pathlib import Path

import pytest

from specs.documents import MAX_BYTES, read_document, read_file, read_text, read_value
from specs.errors import SpecError


def test_scalars_are_those_of_yaml_1_2() -> None:
    text = "{a: 1e-6, b: 010, c: yes, d: 1:30, e: .inf, f: ~, g: 2026-01-01, h: true, i: 1_000}"
    assert read_text(text) == {
        "a": 1e-6,
        "b": 10,
        "c": "yes",
        "d": "1:30",
        "e": math.inf,
        "f": None,
        "g": "2026-01-01",
        "h": True,
        "i": 1000,
    }


def test_merge_key_is_a_plain_key() -> None:
    assert read_text("<<: {a: 1}\nb: 2\n") == {"<<": {"a": 1}, "b": 2}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the document is empty"),
        ("# only a comment\n", "the document is empty"),
        ("- 1\n- 2\n", "expected keys and values at the top of the document, found a list"),
        ("just\nwords\n", "expected keys and values at the top of the document, found a single"),
        ("a: 1\nb: 2\na: 3\n", "key 'a' stands twice, on line 1 and on line 3"),
        ('{"a": {"b": 1, "b": 2}}', "key 'b' stands twice in one mapping"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "tags .* on line 2"),
        ("a: !mine 1\n", "tags .* on line 1"),
        ("a: &x 1\nb: *x\n", "anchors and aliases are not accepted on line 1"),
        ("a: *x\n", "anchors and aliases are not accepted on line 1"),
        ("a: 1\n---\nb: 2\n", "more than one document .* on line 2"),
        ("a: 1\n1: 2\n", "keys must be text on line 2"),
        ("? [a]\n: b\n", "keys must be text on line 1"),
        ("a:\n  b: [1, 2\nc: 3\n", "not valid YAML on line 3"),
        ("a:\n\t- b\n", "not valid YAML on line 2"),
        ("a: 1\x00\n", "not valid YAML"),
        ("a: " + "[" * 60 + "]" * 60 + "\n", "nested more than 40 deep on line 1"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "nested more than 40 deep"),
        ('{"a": ' + "[" * 10**5 + "]" * 10**5 + "}", "nested more than 40 deep"),
        ("a:\n" + "- 1\n" * 30_000, "more than 20000 values"),
        ("a: " + "9" * 5000 + "\n", "a number that is too long"),
        ("a: '" + "x" * 10_000_000 + "'\n", "larger than 1000 kB"),
    ],
    ids=lambda value: value[:20],
)
def test_bad_text_has_one_fault(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        read_document(text)
    assert len(caught.value.faults) == 1


def test_forty_levels_are_read() -> None:
    deep = read_text("a: " + "[" * 39 + "]" * 39 + "\n")
    assert list(deep) == ["a"]


def test_faults_of_a_file_name_it(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("a: [1\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"spec\.yaml: not valid YAML"):
        read_document(file)


@pytest.mark.parametrize("name", ["nowhere.yaml", "null\0name.yaml"])
def test_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="no such file"):
        read_document(str(tmp_path / name))


def test_folder_and_foreign_bytes(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a folder"):
        read_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("a: é\n".encode("latin-1"))
    with pytest.raises(SpecError, match="not UTF-8 text, from byte 3 on"):
        read_file(tmp_path / "latin.yaml")


def test_large_file_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as handle:
        handle.truncate(100 * MAX_BYTES)
    with pytest.raises(SpecError, match="larger than 1000 kB"):
        read_file(file)
    file.write_bytes(b"a" * (MAX_BYTES) + "é".encode())
    with pytest.raises(SpecError, match="larger than 1000 kB"):
        read_file(file)


def test_json_files_are_json(tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text('\ufeff{"a": [1, 2.5, null]}', encoding="utf-8")
    assert read_document(file) == {"a": [1, 2.5, None]}
    file.write_text("{\n a: 1}", encoding="utf-8")
    with pytest.raises(SpecError, match="not valid JSON on line 2"):
        read_document(file)


def test_values() -> None:
    assert read_value("[1, 2]") == [1, 2]
    assert read_value("96 GB") == "96 GB"
    assert read_value("") is None
