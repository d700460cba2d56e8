// SPDX-License-Identifier: Apache-2.0
// Protects the server from what clients may do: too much, too slowly, not at all; and its end.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import net from 'node:net';
import { Server, sleep, slow } from './lib/server.mjs';

let server;

before(async () => { server = await Server.start('--max-context', '1024'); });
after(async () => { await server.stop(); });

const head = 'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';

test('a huge body is refused with 413, however it is announced', async () => {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(20 << 20) }] });
  assert.equal((await server.post('/v1/chat/completions', body)).status, 413);
  const announced = await server.raw(`${head}Content-Length: 3000000000\r\n\r\n`);
  assert.match(announced.received, /^HTTP\/1\.1 413 [^]*"error"/);
  assert.ok(announced.closed);
  const chunk = `100000\r\n${'x'.repeat(1 << 20)}\r\n`;
  const chunked = await server.raw([`${head}Transfer-Encoding: chunked\r\n\r\n`, ...Array(12).fill(chunk)]);
  assert.match(chunked.received, /^HTTP\/1\.1 413 /);
});

test('heads that are too large, or understood in two ways, are refused', async () => {
  for (const [text, status] of [
    [`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(40000)}\r\n\r\n`, 431],
    [`${head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`, 400],
    [`${head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`, 400],
    [`${head}Content-Length: 2\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n{}`, 400],
    [`${head}Content-Length: 2\r\nContent-Type: text/plain\r\n\r\n{}`, 400],
    ['hello\r\n\r\n', 400],
  ]) {
    const { received, closed } = await server.raw(text);
    assert.match(received, new RegExp(`^HTTP/1.1 ${status} `));
    assert.ok(closed);
  }
});

test('a client that sends its head too slowly is closed', async () => {
  const { received, closed } = await server.raw(
    ['GET / HTTP/1.1\r\n', ...Array(200).fill('X-More: x\r\n')], undefined, 500);
  assert.ok(closed);
  assert.match(received, /^HTTP\/1\.1 408 /);
});

test('clients that read nothing and then leave give their pages back', async () => {
  const sockets = [];
  const body = JSON.stringify({ prompt: 'a', max_tokens: 900, ignore_eos: true, stream: true });
  for (let i = 0; i < 8; i++) {
    const socket = net.connect({ port: server.port, host: '127.0.0.1' });
    socket.pause();
    socket.on('error', () => {});
    socket.write(`POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`);
    sockets.push(socket);
  }
  await sleep(1500);
  sockets.forEach((socket) => socket.destroy());
  const metrics = await server.quiet();
  assert.equal(metrics['fathom_kv_pages{state="held"}'], 0);
  assert.equal(metrics.fathom_requests_held, 0);
});

test('one connection serves many requests, also pipelined', async () => {
  const one = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n';
  const { received } = await server.raw(one.repeat(50) +
    'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  assert.equal(received.match(/HTTP\/1\.1 200 OK/g).length, 51);
});

test('pages of other sites reach nothing, on either listener', async () => {
  const drain = '{"unit":1}', wish = '{"messages":[{"role":"user","content":"hi"}]}';
  for (const [url, path, body] of [
    [server.admin, '/debug/fleet/drain', drain], [server.url, '/v1/chat/completions', wish]]) {
    const { host, port } = new URL(url);
    const post = `POST ${path} HTTP/1.1\r\nConnection: close\r\nContent-Length: ${body.length}\r\n`;
    const json = 'Content-Type: application/json\r\n';
    for (const [request, status] of [
      // What a form or a plain fetch() can send without asking first.
      [`${post}Host: ${host}\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n\r\n${body}`, 403],
      [`${post}Host: ${host}\r\nOrigin: null\r\n${json}\r\n${body}`, 403],
      [`${post}Host: ${host}\r\nOrigin: http://localhost:${port + 1}\r\n${json}\r\n${body}`, 403],
      [`${post}Host: ${host}\r\nContent-Type: text/plain\r\n\r\n${body}`, 415],
      [`${post}Host: ${host}\r\n\r\n${body}`, 415],
      // A name of the attacker's that leads here now.
      [`${post}Host: evil.example:${port}\r\nOrigin: http://evil.example:${port}\r\n${json}\r\n${body}`, 421],
      [`GET / HTTP/1.1\r\nHost: evil.example:${port}\r\nConnection: close\r\n\r\n`, 421],
      // What a browser asks before it sends JSON.
      [`OPTIONS ${path} HTTP/1.1\r\nHost: ${host}\r\nOrigin: http://evil.example\r\n` +
        'Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n', 403],
      [`OPTIONS ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`, 405],
    ]) {
      const { received } = await server.raw(request, undefined, 0, url);
      assert.match(received, new RegExp(`^HTTP/1.1 ${status} `), request);
      assert.doesNotMatch(received, /access-control-/i);
      if (status === 421) assert.match(received, /--allow-host/);
      if (request.startsWith('OPTIONS') && status === 403)
        assert.match(received, /"message":"[^"]*--allow-origin http:\/\/evil\.example [^"]*"/);
      if (status === 405) assert.match(received, /\r\nAllow: POST\r\n/);
    }
  }
  const { units } = await (await fetch(`${server.admin}/debug/fleet`)).json();
  assert.deepEqual(units.map((unit) => unit.state), ['serving']);
});

test('the operator has a listener of his own', async () => {
  for (const path of ['/metrics', '/debug/fleet']) {
    assert.equal((await fetch(server.admin + path)).status, 200);
    const elsewhere = await fetch(server.url + path);
    assert.equal(elsewhere.status, 404);
    assert.match((await elsewhere.json()).error.message, /--admin-port/);
  }
  const drain = await server.post('/debug/fleet/drain', { unit: 1 });
  assert.equal(drain.status, 404);
  for (const path of ['/', '/v1/models']) assert.equal((await fetch(server.admin + path)).status, 404);
  for (const url of [server.url, server.admin]) assert.equal((await fetch(`${url}/health`)).status, 200);
  const models = await fetch(`${server.url}/v1/models`, { method: 'DELETE' });
  assert.equal(models.status, 405);
  assert.equal(models.headers.get('allow'), 'GET, HEAD');
});

test('named hosts are let in, and where all networks may ask any is', async () => {
  const ask = (of, host, origin) => of.raw(
    `GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${origin ? `Origin: ${origin}\r\n` : ''}\r\n`);
  const named = await Server.start('--allow-host', 'chat.example, [fd00::1]');
  const wide = await Server.start('--host', '0.0.0.0');
  try {
    assert.match((await ask(named, 'chat.example:81')).received, /^HTTP\/1.1 200 /);
    assert.match((await ask(named, 'localhost', 'https://chat.example')).received, /^HTTP\/1.1 200 /);
    assert.match((await ask(named, 'other.example')).received, /^HTTP\/1.1 421 /);
    assert.match((await ask(wide, 'other.example')).received, /^HTTP\/1.1 200 /);
    assert.match((await ask(wide, 'other.example', 'http://chat.example')).received, /^HTTP\/1.1 403 /);
    assert.match(wide.admin, /^http:\/\/127\.0\.0\.1:/);
  } finally {
    await named.stop();
    await wide.stop();
  }
});

test('other sites cannot read the API unless they are let in', async () => {
  const closed = await fetch(`${server.url}/v1/models`, { headers: { Origin: 'http://b' } });
  assert.equal(closed.status, 403);
  assert.equal(closed.headers.get('access-control-allow-origin'), null);
  const open = await Server.start('--allow-origin', '*');
  try {
    const asked = await fetch(`${open.url}/v1/chat/completions`, { method: 'OPTIONS' });
    const admin = await fetch(`${open.admin}/metrics`, { headers: { Origin: 'http://b' } });
    assert.equal(admin.status, 403); // the operator's is nobody else's
    assert.equal(admin.headers.get('access-control-allow-origin'), null);
    assert.equal(asked.status, 204);
    assert.equal(asked.headers.get('access-control-allow-origin'), '*');
    assert.match(asked.headers.get('access-control-allow-methods'), /POST/);
  } finally {
    await open.stop();
  }
});

test('an idle server ends on SIGTERM and on SIGINT, idle connections or not', async () => {
  for (const signal of ['SIGTERM', 'SIGINT']) {
    const idle = await Server.start();
    const socket = net.connect(idle.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write('GET /he'); // a request that never comes whole must not hold it up
    await fetch(`${idle.url}/health`);
    const { code } = await idle.stop(signal);
    assert.equal(code, 0);
    socket.destroy();
  }
});

// Resolves when the server refuses new requests.
async function draining(server) {
  for (let status; status !== 503; await sleep(20))
    ({ status } = await server.post('/v1/completions', { prompt: 'a', max_tokens: 1 }));
}

test('a busy server finishes its answers, refuses new ones, and then ends', async () => {
  const busy = await Server.start('--max-context', '2048', ...slow);
  const running = busy.post('/v1/completions',
    { prompt: 'once', max_tokens: 150, ignore_eos: true, stream: true });
  const stream = (await running).body.getReader();
  await stream.read();
  const stopped = busy.stop();
  await draining(busy);
  assert.equal((await busy.post('/health', {}).catch(() => ({ status: 0 }))).status > 0, true);
  let text = '';
  for (let piece; !(piece = await stream.read()).done;) text += Buffer.from(piece.value);
  assert.match(text, /"finish_reason":"length"/);
  assert.match(text, /data: \[DONE\]\n\n$/);
  assert.equal((await stopped).code, 0);
});

test('a second signal ends a busy server at once', async () => {
  const busy = await Server.start('--max-context', '2048', ...slow);
  const answer = busy.post('/v1/completions', { prompt: 'once', max_tokens: 2000, ignore_eos: true });
  answer.catch(() => {});
  await busy.until((metrics) => metrics.fathom_requests_running > 0);
  busy.child.kill('SIGTERM');
  await draining(busy);
  assert.equal((await busy.stop()).code, 143);
});

test('a port in use and a wrong model are said before anything else', async () => {
  await assert.rejects(Server.start('--port', String(server.port)),
    /with 1: fathom serve: cannot listen on 127\.0\.0\.1 port \d+: Address already in use;/);
  await assert.rejects(Server.start('--admin-port', String(server.port)),
    /with 1: fathom serve: cannot listen on 127\.0\.0\.1 port \d+: Address already in use;.*--admin-port/);
  await assert.rejects(Server.start('--admin-port', '70000'), /with 1: .*--admin-port: expected 0 to 65535/);
  await assert.rejects(Server.start('--port', '65535'), /with 1: .*set --admin-port/);
  await assert.rejects(Server.start('--allow-host', 'http://a'), /with 1: .*--allow-host: 'http:\/\/a'/);
  await assert.rejects(Server.start('--model', '/nowhere'), /with 1: fathom serve: .*\/nowhere/);
  await assert.rejects(Server.start('--modell', 'x'), /with 2: fathom serve: .*modell/);
});
