# SPDX-License-Identifier: Apache-2.0
"""A server of chats that streams what a test gives it, for the tests of `fathom chat --url`."""
import http.server
import json
import threading


class Puppet(http.server.BaseHTTPRequestHandler):
    """A server that is none of ours: it streams what it is given."""
    protocol_version = "HTTP/1.1"
    seen, events, status = [], [], 200
    stalls = threading.Event()  # set: a stream does not end

    left = threading.Event()  # a client has left such a stream

    @classmethod
    def start(cls):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), cls)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return "http://127.0.0.1:%d/v1" % server.server_port

    def answer(self, body, kind):
        self.send_response(self.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(b'{"data": [{"id": "one/model"}]}', "application/json")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, self.headers.get("Authorization"), body))
        if not self.stalls.is_set():
            self.answer(b"".join(self.events), "text/event-stream")
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for each in self.events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(each), each))
        self.wfile.flush()
        self.rfile.read(1)  # until the client leaves
        self.left.set()

    def log_message(self, *_):
        pass


def event(**delta):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode() + b"\n\n"
