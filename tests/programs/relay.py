#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""relay.py A B: a bad cable. Whatever frame comes on interface A leaves on B, and the other way round, as lines of
stdin say from then on: `delay SECONDS`, `loss SHARE` (of frames, by chance), `cut ADDRESS,ADDRESS...` (frames from or
to those are gone). Frames keep their order. Each line is answered with `ok` once it holds."""
import collections
import random
import select
import socket
import sys
import time

ETH_P_ALL, PACKET_OUTGOING, SOL_PACKET, PACKET_VNET_HDR = 3, 4, 263, 15
VNET_BYTES, FRAME_BYTES = 10, 70000  # a head in front of each frame says what checksums are still to be made
SENDER = VNET_BYTES + 14 + 12  # in a frame of IPv4
TYPE = VNET_BYTES + 12


def open_end(interface):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
    end.bind((interface, ETH_P_ALL))
    end.setblocking(False)
    return end


class Cable:
    def __init__(self, ends):
        self.ends = dict(zip(ends, reversed(ends)))
        self.delay, self.loss, self.gone = 0.0, 0.0, set()
        self.under_way = collections.deque()  # (when it arrives, where, frame)

    def order(self, line):
        word, value = line.split()
        if word == "delay":
            self.delay = float(value)
        elif word == "loss":
            self.loss = float(value)
        elif word == "cut":
            self.gone = {socket.inet_aton(address) for address in value.split(",") if address != "none"}

    def is_lost(self, frame):
        if self.loss and random.random() < self.loss:
            return True
        return bool(self.gone) and frame[TYPE:TYPE + 2] == b"\x08\x00" and (
            frame[SENDER:SENDER + 4] in self.gone or frame[SENDER + 4:SENDER + 8] in self.gone)

    def take(self, end):
        try:
            for _ in range(64):
                frame, (_, _, kind, _, _) = end.recvfrom(FRAME_BYTES)
                if kind != PACKET_OUTGOING and not self.is_lost(frame):
                    self.under_way.append((time.monotonic() + self.delay, self.ends[end], frame))
        except BlockingIOError:
            pass

    def deliver(self):
        """Returns after how long there is more to do; None: not known."""
        while self.under_way:
            left = self.under_way[0][0] - time.monotonic()
            if left > 0:
                return left
            _, end, frame = self.under_way.popleft()
            try:
                end.send(frame)
            except OSError:  # no room, or the interface is down: lost, as on any cable
                pass
        return None


def main():
    ends = [open_end(name) for name in sys.argv[1:3]]
    cable = Cable(ends)
    print("ok", flush=True)
    left = None
    while True:
        readable, _, _ = select.select([*ends, sys.stdin], [], [], left)
        for end in ends:
            if end in readable:
                cable.take(end)
        if sys.stdin in readable:
            line = sys.stdin.readline()
            if not line:
                return
            cable.order(line)
            print("ok", flush=True)
        left = cable.deliver()


if __name__ == "__main__":
    main()
