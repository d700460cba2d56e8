# SPDX-License-Identifier: Apache-2.0
"""Requests that come and go like a day, for the tests of fleets: `Day` is the curve that DeepSeek published, `Tide` a thread
that sends requests as a curve says and keeps what each client saw.

Requests are spread evenly, with a draw within each one's place: as smooth as a load of millions, where the few of a test
would come in lumps."""
import asyncio
import json
import random
import re
import threading
import time
import urllib.parse

PATIENCE = 300


class Day:
    """The published day's load as a share of its largest hour, straight lines between the middles of hours."""

    def __init__(self, scenario):
        with open(scenario, encoding="utf-8") as file:
            [hours] = re.findall(r"^    hours: \[([^]]*)\]", file.read(), re.MULTILINE)
        self.hours = [float(hour) for hour in hours.split(",")]
        assert len(self.hours) == 24

    def at(self, share):
        """`share` of the day, from the first hour on that was published (12:00 UTC+8); it goes round."""
        hour = (share % 1) * 24 - 0.5
        first, within = int(hour // 1), hour % 1
        load = self.hours[first % 24] * (1 - within) + self.hours[(first + 1) % 24] * within
        return load / max(self.hours)

    def lowest(self):
        """The share of the day at which the load is least."""
        return (self.hours.index(min(self.hours)) + 1) / 24


class Answer:
    """What one client saw; times are the wall's. `error` is None if all went well."""

    def __init__(self, number):
        self.number, self.began, self.first, self.last, self.tokens, self.error = number, time.time(), None, None, [], None

    def ttft(self):
        return self.first - self.began

    def tpot(self):
        return (self.last - self.first) / max(len(self.tokens) - 1, 1)


class Tide(threading.Thread):
    """From `begin` to `end` (the wall's time) `rate(now)` requests a second; request i is `bodies[i % len(bodies)]` to
    /v1/completions, and is streamed. `answers` has them all, in the order in which they came."""

    def __init__(self, url, bodies, rate, begin, end, seed=1):
        super().__init__(daemon=True)
        self.address, self.bodies, self.rate, self.begin, self.end = urllib.parse.urlparse(url), bodies, rate, begin, end
        self.answers, self.random, self.late = [], random.Random(seed), 0

    def run(self):
        asyncio.run(self.flow())

    async def flow(self):
        tasks, at, due, place, step = set(), self.begin, 0.0, self.random.random(), 0.01
        while at < self.end:
            due += self.rate(at) * step
            at += step
            while due >= len(self.answers) + place:
                wait = at - time.time()
                if wait > 0:
                    await asyncio.sleep(wait)
                else:
                    self.late = max(self.late, -wait)  # the test itself was too slow
                answer = Answer(len(self.answers) % len(self.bodies))
                self.answers.append(answer)
                place = self.random.random()
                task = asyncio.create_task(self.ask(answer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def ask(self, answer):
        try:
            await asyncio.wait_for(self.read(answer), PATIENCE)
        except Exception as error:  # whoever looks at the answers tells it
            answer.error = repr(error)

    async def read(self, answer):
        body = json.dumps(dict(self.bodies[answer.number], stream=True, return_token_ids=True)).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n" \
               "Content-Length: %d\r\nConnection: close\r\n\r\n" % (self.address.netloc, len(body))
        reader, writer = await asyncio.open_connection(self.address.hostname, self.address.port)
        try:
            writer.write(head.encode() + body)
            status, ended = (await reader.readline()).split(), False
            if status[1:2] != [b"200"]:
                raise RuntimeError((status, await reader.read(2000)))
            async for line in reader:
                if not line.startswith(b"data: "):
                    continue
                if line.startswith(b"data: [DONE]"):
                    ended = True
                    break
                event = json.loads(line[6:])
                if "error" in event:
                    raise RuntimeError(event)
                for choice in event["choices"]:
                    if choice.get("token_ids"):
                        answer.last = time.time()
                        answer.first = answer.first or answer.last
                        answer.tokens += choice["token_ids"]
            if not ended:
                raise RuntimeError("the stream was cut off")
        finally:
            writer.close()
