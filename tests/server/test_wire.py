"""Bodies: what two readers of JSON make of them is the same, and what neither takes is refused in words."""

import pytest
from pydantic import TypeAdapter

from ifonly.server.schema import PathQuestion, Question
from ifonly.server.wire import RefusedError, decode

BODIES = [
    '{"row": [1, -0.0, 1e-320, 0.1, 12345678901234567890], "target": 3, "prob": 0.7}',
    '{"row": {"a": null, "b": true, "é": "\\u00e9"}, "lam": 1, "detail": "page"}',
    '{"index": 9007199254740993, "edits": {"a": 1.5}, "max_changes": 2}',
    '{"indices": [0, 9223372036854775807], "n": null, "pack": true}',
    '{"row": [1], "actions": {"linear": [[{"a": 1, "b": -0.4}, "<=", 0]], "one_of": [["a", 1]], "bounds": [0, null]}}',
    '{"row": [1], "row": [2]}',
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_what_pydantic_makes_of_it(body):
    kind = TypeAdapter(Question)
    found = decode(kind, body.encode())
    assert repr(found) == repr(kind.validate_json(body))


def test_goals_of_a_path_are_numbers():
    assert decode(TypeAdapter(PathQuestion), b'{"row": [1], "lams": [1, 0.5]}').lams == [1.0, 0.5]


@pytest.mark.parametrize(
    ("body", "status", "field", "message"),
    [
        (b'{"row": [NaN', 400, None, "the body is no JSON"),
        (b'{"prob": 2}', 422, "prob", "prob must be < 1.0; got 2"),
        (b'{"index": 100000000000000000000000}', 422, "index", "index must be < 9223372036854775808"),
        (b'{"index": 1.0}', 422, "index", "index must be a whole number; got 1.0"),
        (b'{"rwo": [1]}', 422, "rwo", "rwo is not known"),
        (b"[1]", 422, None, "the body must be an object"),
    ],
)
def test_what_is_wrong_is_told_in_words(body, status, field, message):
    with pytest.raises(RefusedError, match=message) as refused:
        decode(TypeAdapter(Question), body)
    assert (refused.value.status, refused.value.field) == (status, field)
