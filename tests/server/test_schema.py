"""Whatever the OpenAPI description allows, and whatever it forbids: every reply is one that it describes."""

import pytest
import schemathesis
from helpers.serving import make_credit, make_toy, serving
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

EXAMPLES = 25
PATIENCE = 60  # seconds for a reply, on a machine that has other things to do
OPERATIONS = [
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /v1/models",
    "GET /v1/model",
    "GET /v1/overview",
    "GET /v1/rows",
    "POST /v1/invert",
    "POST /v1/path",
    "POST /v1/around",
    "POST /v1/download",
]
WITH_INPUT = ("/v1/model", "/v1/overview", "/v1/rows", "/v1/invert", "/v1/path", "/v1/around", "/v1/download")
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with serving(folder, *make_toy(folder), *make_credit(folder), "--timeout", str(PATIENCE)) as found:
        yield found


@pytest.fixture(scope="module")
def described(server):
    """The OpenAPI description, which it takes a second to read."""
    return schemathesis.openapi.from_url(f"{server.url}openapi.json")


CASES = [(o, False) for o in OPERATIONS] + [(o, True) for o in OPERATIONS if o.split()[1] in WITH_INPUT]


@pytest.mark.parametrize(("operation", "wrong"), CASES)
def test_every_reply_is_as_described(described, operation, wrong):
    method, path = operation.split()
    found = described[path][method]
    mode = GenerationMode.NEGATIVE if wrong else GenerationMode.POSITIVE
    replies = set()

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=found.as_strategy(generation_mode=mode))
    def run(case):
        replies.add(case.call_and_validate(checks=CHECKS, timeout=PATIENCE).status_code)

    run()
    assert replies


def test_nothing_is_left_out(server):
    paths = server.client.get("/openapi.json").json()["paths"]
    assert {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods} == set(OPERATIONS)


GOOD = [
    ("/v1/invert", {"row": [0.5, 2, 31], "target": "approved", "prob": 0.8}),
    ("/v1/invert", {"row": {"income": 0.5, "loans": 2, "age": 31}, "lam": 0.1, "detail": "page"}),
    ("/v1/invert", {"index": 0, "prob": 0.99, "actions": {"frozen": ["income", "age"], "bounds": [0, 100]}, "detail": "page"}),
    ("/v1/invert", {"model": "credit", "index": 1, "n": 3, "prob": 0.7, "detail": "page", "top": 2}),
    ("/v1/invert", {"model": "credit", "indices": [1, 2], "prob": 0.7, "cost": {"difficulty": {"age": "impossible"}}}),
    ("/v1/path", {"index": 0, "target": "approved"}),
    ("/v1/around", {"index": 0, "target": "approved", "features": ["income", "age"]}),
    ("/v1/around", {"model": "credit", "index": 1, "edits": {"duration": 12}, "features": ["account", "duration"]}),
    ("/v1/path", {"model": "credit", "index": 1, "lams": [1.0], "detail": "x"}),
]


@pytest.mark.parametrize(("path", "question"), GOOD)
def test_answers_are_as_described(described, path, question):
    operation = described[path]["POST"]
    reply = operation.Case(body=question, media_type="application/json").call_and_validate(checks=CHECKS[:-1], timeout=PATIENCE)
    assert reply.status_code == 200
