"""Safe by default: everything that can be sent to a server to hurt it, and what it says."""

import json
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from helpers.serving import everything, make_toy, post, serving

from ifonly import cli

ROW = {"income": 0.5, "loans": 2, "age": 31}
GOOD = json.dumps({"row": ROW, "target": "approved"}).encode()
TOKEN = "correct-horse-battery-staple"
MANY = 400  # connections that never finish a sentence


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with serving(folder, *make_toy(folder), "--max-body", "0.1", "--timeout", "2") as found:
        yield found


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked")
    (folder / "token").write_text(f"{TOKEN}\n")
    with serving(folder, *make_toy(folder), "--token-file", folder / "token") as found:
        yield found


def parsed(reply):
    """Status and error of a raw reply."""
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"] if body else None


# ---- bodies ----


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"row": [1, 2, 3]} trailing',
        b'{"row": "\xff\xfe"}',
        b'{"row": [1, 2, 3], "target": "\\ud800"}',
        b"[" * 50_000,
        b'{"row": ' + b"[" * 40_000 + b"]" * 40_000 + b"}",
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"\x00" * 100,
        b'{"index": ' + b"9" * 50_000 + b"}",
    ],
    ids=["empty", "half", "words", "tail", "no utf-8", "surrogate", "open", "deep", "deep objects", "zeros", "digits"],
)
def test_a_body_that_is_no_json_is_refused(server, body):
    reply = server.client.post("/v1/invert", content=body, headers={"content-type": "application/json"})
    assert reply.status_code in (400, 422)
    assert set(reply.json()["error"]) == {"code", "message", "field"}
    assert len(reply.text) < 500


@pytest.mark.parametrize("body", [b"null", b"[]", b"7", b'"text"', b"[[1,2,3]]"])
def test_json_that_is_no_question(server, body):
    reply = server.client.post("/v1/invert", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["message"].split(";")[0]) == (422, "the body must be an object")


def test_a_million_wrong_values_cost_one_error(server):
    for wrong in (b"null", b'"x"', b"[]", b"{}"):
        body = b'{"rows": [' + b",".join([wrong] * 20_000) + b"]}"
        began = time.perf_counter()
        reply = server.client.post("/v1/invert", content=body, headers={"content-type": "application/json"})
        assert reply.status_code in (413, 422)
        assert time.perf_counter() - began < 1.0


def test_a_body_has_to_be_said_to_be_json(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        reply = server.client.post("/v1/invert", content=GOOD, headers={"content-type": kind})
        assert (reply.status_code, reply.json()["error"]["code"]) == (415, "unsupported_media_type")
    assert server.client.post(
        "/v1/invert", content=GOOD, headers={"content-type": "application/json; charset=utf-8"}
    ).is_success


def test_too_large_a_body_is_refused_before_it_is_read(server):
    status, error = parsed(server.raw(post(b"", length=10**9)))
    assert (status, error["code"]) == (413, "too_large")
    assert int(server.raw(post(b"", length=10**30)).split()[1]) in (400, 413)


def test_too_large_a_body_of_unknown_length_is_cut_off(server):
    def endless():
        for _ in range(10_000):
            yield b" " * 10_000

    try:
        reply = server.client.post("/v1/invert", content=endless(), headers={"content-type": "application/json"})
    except httpx.TransportError:  # it hung up on us while we were still talking
        return
    assert reply.status_code == 413


def test_a_body_in_pieces_is_as_good_as_any(server):
    def pieces():
        for byte in GOOD:
            yield bytes([byte])

    assert server.client.post("/v1/invert", content=pieces(), headers={"content-type": "application/json"}).is_success


# ---- slow, and gone ----


@pytest.mark.seconds
def test_a_body_that_does_not_come_is_not_waited_for(server):
    began = time.monotonic()
    status, error = parsed(server.raw(post(b'{"row":', length=1000)))
    assert (status, error["message"]) == (408, "request timeout")
    assert 1.5 < time.monotonic() - began < 6


@pytest.mark.seconds
def test_a_body_that_comes_byte_by_byte_is_not_waited_for(server):
    began = time.monotonic()
    with server.connect() as sock:
        sock.sendall(post(b"", length=100_000))
        sock.settimeout(0.1)
        reply = b""
        while time.monotonic() - began < 10:
            try:
                sock.sendall(b" ")
                reply += sock.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            if reply:
                break
    assert parsed(reply)[0] == 408
    assert time.monotonic() - began < 6


@pytest.mark.seconds
def test_connections_that_never_finish_a_sentence_keep_nobody_out(tmp_path):
    """Slowloris: hundreds of connections with headers that never end are hung up on, and others are answered meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3 * MANY:
        pytest.skip(f"needs {3 * MANY} open files; this machine allows {hard}")
    if soft < 3 * MANY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3 * MANY, hard))
    with serving(tmp_path, *make_toy(tmp_path), "--timeout", "2") as server:
        slow = [server.connect() for _ in range(MANY)]
        try:
            began = time.monotonic()
            for sock in slow:
                sock.sendall(b"POST /v1/invert HTTP/1.1\r\nHost: localhost\r\nX-")
            for sock in slow:
                sock.sendall(b"a")
            reply = server.invert(row=ROW)
            assert reply.is_success
            assert time.monotonic() - began < 5
            for sock in slow:
                sock.settimeout(30)
                assert everything(sock).startswith(b"HTTP/1.1 408")
            assert time.monotonic() - began < 20
        finally:
            for sock in slow:
                sock.close()


@pytest.mark.seconds
def test_a_silent_connection_is_hung_up_on_without_a_word(server):
    with server.connect() as sock:
        began = time.monotonic()
        assert everything(sock) == b""
        assert 1 < time.monotonic() - began < 10


def test_headers_without_end_are_cut_off(server):
    with server.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for i in range(10_000):
                sock.sendall(b"X-%d: " % i + b"a" * 1000 + b"\r\n")
        except OSError:
            pass
        else:
            pytest.fail("ten megabytes of headers were taken")
    assert server.invert(row=ROW).is_success


def test_those_who_leave_leave_nothing_behind(server):
    before = len(server.requests())
    for _ in range(50):
        with server.connect() as sock:
            sock.sendall(post(GOOD)[:-5])
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset, not a goodbye
        with server.connect() as sock:
            sock.sendall(post(GOOD))
    server.requests(before + 100)  # all of them are done with
    assert server.metric("ifonly_queue_depth")["ifonly_queue_depth"] == 0
    assert server.invert(row=ROW).is_success
    assert not [line for line in server.log() if line["event"] == "error"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_hung_up_on(server, data):
    with server.connect() as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        reply = everything(sock)
    assert not reply or reply.startswith(b"HTTP/1.1 4")
    assert b"Traceback" not in reply


# ---- who asks, and where ----


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", ""])
def test_other_names_are_not_answered(server, host):
    for path in ("/", "/v1/model", "/metrics"):
        reply = server.client.get(path, headers={"host": host})
        assert (reply.status_code, reply.json()["error"]["code"]) == (421, "misdirected")
    assert server.client.get("/healthz", headers={"host": host}).is_success


def test_pages_of_other_sites_may_not_ask(server):
    for origin in ("https://evil.example", "null", f"http://localhost.evil.example:{server.port}"):
        reply = server.client.post("/v1/invert", json={"row": ROW}, headers={"origin": origin})
        assert reply.status_code == 403
        assert "access-control-allow-origin" not in reply.headers
    own = f"http://localhost:{server.port}"
    assert server.client.post("/v1/invert", json={"row": ROW}, headers={"origin": own}).is_success
    before = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    asked = server.client.options("/v1/invert", headers=before)
    assert asked.status_code in (403, 405)
    assert not [name for name in asked.headers if name.startswith("access-control")]


@pytest.mark.seconds
def test_pages_behind_a_gateway_may_ask_by_its_name(tmp_path):
    with serving(tmp_path, *make_toy(tmp_path), "--allow-host", "whatif.example.org") as server:
        for host, origin, status in (
            ("whatif.example.org", "https://whatif.example.org", 200),
            (f"localhost:{server.port}", "https://whatif.example.org", 200),
            ("whatif.example.org", "https://evil.example", 403),
            (f"localhost:{server.port}", "http://localhost:1", 403),
        ):
            reply = server.client.post("/v1/invert", json={"row": ROW}, headers={"host": host, "origin": origin})
            assert reply.status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": TOKEN},
    ],
)
def test_without_the_token_there_is_no_answer(locked, headers):
    for path in ("/v1/model", "/v1/models", "/v1/rows", "/v1/overview", "/metrics", "/openapi.json"):
        reply = locked.client.get(path, headers=headers)
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert locked.client.post("/v1/invert", json={"row": ROW}, headers=headers).status_code == 401
    assert locked.client.get("/healthz", headers=headers).is_success
    assert locked.client.get("/", headers=headers).is_success


def test_with_the_token_there_is(locked):
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert locked.client.post("/v1/invert", json={"row": ROW}, headers=bearer).is_success
    assert locked.client.get("/metrics", headers={"authorization": f"bearer {TOKEN}"}).is_success


def test_the_token_is_compared_in_constant_time():
    import inspect

    from ifonly.server.app import Guard

    assert "hmac.compare_digest" in inspect.getsource(Guard)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/....//app.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\app.py",
        "/static/index.html%00.png",
        "/../../etc/passwd",
        "//etc/passwd",
    ],
)
def test_no_file_but_the_page_s_is_handed_out(server, path):
    reply = server.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert int(reply.split()[1]) in (400, 404)
    assert b"root:" not in reply
    assert b"import" not in reply


def test_no_request_names_a_file(server):
    for name in ("../toy.npz", "/etc/passwd", "toy.npz", "toy\x00"):
        assert server.refused(row=ROW, model=name)[0] == 404
        assert server.client.get("/v1/model", params={"model": name}).status_code == 404


def test_replies_keep_browsers_from_doing_more_than_they_should(server):
    page = server.client.get("/")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    for reply in (page, server.client.get("/v1/model"), server.client.get("/nothing"), server.invert(row=ROW)):
        headers = reply.headers
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert (headers["referrer-policy"], headers["cross-origin-resource-policy"]) == ("no-referrer", "same-origin")
        assert "server" not in headers
    assert server.client.get("/v1/model").headers["cache-control"] == "no-store"
    assert page.headers["cache-control"] == "no-cache"


def test_methods_and_addresses_that_are_not_there(server):
    for method, path, status in (
        ("GET", "/v1/invert", 405),
        ("DELETE", "/v1/model", 405),
        ("POST", "/", 405),
        ("GET", "/docs", 404),
    ):
        reply = server.client.request(method, path)
        assert reply.status_code == status
        assert set(reply.json()["error"]) == {"code", "message", "field"}


BROKEN = """
import ifonly.server.replies as replies
def fail(*args, **options):
    raise RuntimeError("Anna Secret")
replies.rows_page = replies.of_answer = fail
from ifonly.cli import main
main()
"""


@pytest.mark.seconds
def test_an_error_that_nobody_expected_says_nothing(tmp_path):
    with serving(tmp_path, *make_toy(tmp_path), code=BROKEN) as server:
        answers = server.client.get("/v1/rows"), server.invert(index=0)
        server.requests(2)
        errors = [line for line in server.log() if line["event"] == "error"]
    for reply in answers:
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal")
        assert not [word for word in ("Secret", "Traceback", "RuntimeError", ".py") if word in reply.text]
    assert [line["error"] for line in errors] == ["RuntimeError"] * 2
    assert all("message" not in line and any("service.py" in place for place in line["where"]) for line in errors)


@pytest.mark.seconds
def test_nothing_that_applicants_said_is_logged(tmp_path):
    with serving(tmp_path, *make_toy(tmp_path)) as server:
        server.answer(row={**ROW, "age": 31.4159}, prob=0.987654)
        server.refused(row={**ROW, "age": "Anna Secret"})
        server.client.get("/v1/rows", params={"q": "Anna Secret"})
        server.client.get("/Anna Secret")
        server.client.get("/v1/model", headers={"x-request-id": "anna-7", "user-agent": "Anna Secret"})
        server.client.get("/v1/model", headers={"x-request-id": 'Anna "Secret"'})
        asked = server.requests(6)
        text = (tmp_path / "server.log").read_text()
    for secret in ("Anna Secret", "Secret", "31.4159", "987654"):
        assert secret not in text
    assert [(line["path"], line["status"]) for line in asked] == [
        ("/v1/invert", 200),
        ("/v1/invert", 422),
        ("/v1/rows", 200),
        ("other", 404),
        ("/v1/model", 200),
        ("/v1/model", 200),
    ]
    assert asked[4]["id"] == "anna-7"
    assert all(set(line) == {"time", "event", "id", "method", "path", "status", "ms"} for line in asked)


@pytest.mark.seconds
def test_what_was_said_is_logged_on_request(tmp_path):
    with serving(tmp_path, *make_toy(tmp_path), "--log-data") as server:
        server.answer(row={**ROW, "age": 31.4159}, target="approved")
        (line,) = server.requests(1)
    assert line["asked"]["row"]["age"] == 31.4159
    assert line["answered"]["answers"][0]["status"] == "exact"


# ---- what is not started ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("toy.pkl", "It is not served: save the model with Model.save"),
        ("toy.npz --host 0.0.0.0", "--host 0.0.0.0 lets other machines ask: give --token-file, or --no-token"),
        ("toy.npz --token-file short", "a token of 16 characters or more"),
        ("toy.npz toy.npz", "two models are called 'toy'"),
        ("toy.csv toy.npz", "it goes after the model that it is for"),
        ("toy.npz toy.csv --key nope", "there is no column 'nope' in the data"),
        ("toy.npz --image 28x28", "an image of 28x28 has other features than the model: toy has 3"),
        ("toy.npz --image big", "--image must be HEIGHTxWIDTH"),
        ("nothing.npz", "nothing.npz: No such file or directory"),
        ("toy.npz --host 203.0.113.7 --no-token", "cannot listen on 203.0.113.7"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    make_toy(tmp_path)
    (tmp_path / "toy.pkl").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    (tmp_path / "short").write_text("short")
    with pytest.raises(SystemExit) as stop:
        cli.main(["serve", *arguments.split(), "--no-open", "--port", "0"])
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "hacked").exists()


def test_a_missing_extra_says_what_installs_it(tmp_path, monkeypatch, capsys):
    import ifonly.cli.serve

    monkeypatch.setattr(ifonly.cli.serve, "NEEDED", ("no_such_library",))
    with pytest.raises(SystemExit):
        cli.main(["serve", "toy.npz"])
    assert 'pip install "ifonly[serve]"' in capsys.readouterr().err


# ---- all at once ----


def test_bad_requests_do_not_disturb_good_ones(server):
    stop = threading.Event()

    def annoy():
        while not stop.is_set():
            server.raw(post(b"[" * 5000))
            server.raw(b"\x00\x01\x02\r\n\r\n")

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(annoy) for _ in range(4)]
        try:
            expected = server.answer(row=ROW, target="approved", prob=0.8)["x"]
            for _ in range(50):
                assert server.answer(row=ROW, target="approved", prob=0.8)["x"] == pytest.approx(expected, rel=1e-12)
        finally:
            stop.set()
    for job in jobs:
        job.result()
