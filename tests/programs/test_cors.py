#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cors.py FATHOM: a page of an origin that --allow-origin names may read every header that an answer has of its own,
whatever the answer is: each stands in Access-Control-Expose-Headers, and so does each that docs/api.md speaks of. Of
several origins the answer names the asking page's, says that it varies by it, and pages of others are kept out."""
import http.client
import json
import os
import re
import subprocess
import tempfile

from server import PATIENCE, Process, Server, fathom

CHAT = "/v1/chat/completions"
PAGE, OTHER = "https://app.example", "http://localhost:3000"
# Those that any page may read (CORS), or that are HTTP's own between two hops, or a browser's business.
PLAIN = {"cache-control", "content-length", "content-type", "date", "connection", "keep-alive", "transfer-encoding", "vary",
         "x-content-type-options", "x-accel-buffering", "etag", "referrer-policy", "content-security-policy",
         "access-control-allow-origin", "access-control-expose-headers", "access-control-allow-methods",
         "access-control-allow-headers", "access-control-max-age"}
DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/api.md")


def ask(server, method, path, body=None, origin=PAGE, **headers):
    client = http.client.HTTPConnection(server.url.split("//")[1], timeout=PATIENCE)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if origin:
        headers["Origin"] = origin
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
    client.request(method, path, body if body is None else json.dumps(body), headers)
    answer = client.getresponse()
    answer.read()
    client.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}


def exposed(headers):
    return {name.strip().lower() for name in headers["access-control-expose-headers"].split(",")}


def all_kinds(server, key):
    """One answer of each kind, as (status, headers)."""
    question = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    known = {"Authorization": "Bearer " + key}
    yield ask(server, "POST", CHAT, {**question, "unheard_of": 1, "return_receipt": True}, **known)
    yield ask(server, "POST", CHAT, {**question, "stream": True, "unheard_of": 1}, **known)
    yield ask(server, "POST", CHAT, question)  # 401
    yield ask(server, "POST", "/v1/messages", {**question, "temperature": 9}, **known)  # 400
    yield ask(server, "GET", "/v1/models/none", **known)  # 404
    yield ask(server, "GET", CHAT, **known)  # 405
    yield ask(server, "POST", CHAT, question, Content_Encoding="br", **known)  # 415
    yield ask(server, "GET", "/")
    yield ask(server, "POST", "/", {})  # 405 of a page
    yield ask(server, "GET", "/%zz")  # 400
    yield ask(server, "OPTIONS", CHAT, Access_Control_Request_Method="POST")
    for _ in range(60):
        found = ask(server, "POST", CHAT, question, **known)
        if found[0] == 429:
            break
    yield found


def refused(*options):
    process = Process("serve", "--port", "0", *options)
    assert process.process.wait(PATIENCE) > 0, process.said()
    return process.said()


def main():
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "a.db")
        key = subprocess.run([fathom, "account", "create", "acme", "--database", database], check=True,
                             stdout=subprocess.PIPE, text=True).stdout.split()[-1]
        subprocess.run([fathom, "account", "limit", "acme", "--database", database, "--requests-per-minute", "20",
                        "--tokens-per-minute", "100000"], check=True, stdout=subprocess.DEVNULL)
        server = Server("--database", database, "--allow-origin", PAGE + "," + OTHER, "--allow-origin", "null")
        seen, statuses = set(), []
        for status, headers in all_kinds(server, key):
            statuses.append(status)
            if headers.get("access-control-allow-origin") is None:
                assert status == 400, (status, headers)  # its head was not read
                continue
            assert headers["access-control-allow-origin"] == PAGE and headers["vary"] == "Origin", headers
            own = set(headers) - PLAIN
            assert own <= exposed(headers), own - exposed(headers)
            seen |= own
        assert statuses == [200, 200, 401, 400, 404, 405, 415, 200, 405, 400, 204, 429], statuses
        with open(DOCUMENT) as file:
            named = set(re.findall(r"`(X-(?:Fathom|RateLimit|Request)[A-Za-z-]*|Request-Id|Retry-After|Allow)\b", file.read()))
        named = {name.lower() for name in named if not name.endswith("-")}
        assert {"x-fathom-receipt", "x-fathom-warning", "retry-after", "allow"} <= named <= exposed(headers), named
        assert seen >= named - {"x-request-id", "request-id"}, named - seen

        for origin in OTHER, "null":
            assert ask(server, "GET", "/health", origin=origin)[1]["access-control-allow-origin"] == origin
        assert ask(server, "GET", "/health", origin="https://evil.example")[0] == 403
        status, headers = ask(server, "GET", "/health", origin=None)
        assert status == 200 and headers["vary"] == "Origin" and "access-control-allow-origin" not in headers, headers
        server.stop()
    said = refused("--allow-origin", PAGE + ",app.example/")
    assert "option --allow-origin: 'app.example/' is not an origin" in said, said
    assert "option --port is given twice" in refused("--port", "0")


main()
