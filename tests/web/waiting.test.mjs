// SPDX-License-Identifier: Apache-2.0
// Protects whole answers that take long: after 5 s of silence a blank line says that the server is there, so that
// nothing on the way gives the connection up, and what comes at last is the answer all the same.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { Puppet, repeat, say } from './lib/puppet.mjs';

// At least 10 s, on any machine.
const stepMs = 80, tokens = 125;
const messages = [{ role: 'user', content: repeat('on and ') }];
const request = { model: 'puppet', messages, max_tokens: tokens };
let server;

before(async () => {
  [server, reader] = await Promise.all([Puppet.start({ stepMs }), Puppet.start({ stepMs: 700, names: 'reader' })]);
});

after(() => Promise.all([server?.stop(), reader?.stop()]));

// Its steps take 0.7 s, and this prompt ten of them.
const prompt = { model: 'reader', messages: [{ role: 'user', content: `${'one and two '.repeat(7000)}${say('Read.')}` }] };
let reader;

const asked = [
  ['/v1/chat/completions', request, ({ usage }) => usage.completion_tokens],
  ['/v1/messages', request, ({ usage }) => usage.output_tokens],
  ['/v1/responses', { model: 'puppet', input: messages, max_output_tokens: tokens }, ({ usage }) => usage.output_tokens],
];

const blank = async (path, body, count) => {
  const answer = await server.post(path, body);
  assert.equal(answer.status, 200);
  assert.match(answer.headers.get('content-type'), /^application\/json/);
  const text = await answer.text();
  assert.match(text, /^\n+\{/, path);
  assert.equal(count(JSON.parse(text)), tokens, path);
};

// All are asked at once, so that the test takes no longer than one of them.
describe('waiting', { concurrency: true }, () => {
  for (const [path, body, count] of asked)
    test(`waiting: ${path} sends blank lines ahead of an answer that takes long`, () => blank(path, body, count));

  test('waiting: clients read the answer behind blank lines', async () => {
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    const [chat, message] = await Promise.all([openai.chat.completions.create(request), anthropic.messages.create(request)]);
    assert.equal(chat.usage.completion_tokens, tokens);
    assert.equal(message.usage.output_tokens, tokens);
  });

  test('waiting: who wants a receipt gets no blank lines, for it is a header', async () => {
    const answer = await server.post('/v1/chat/completions', { ...request, return_receipt: true });
    assert.ok(answer.headers.get('x-fathom-receipt'));
    assert.match(await answer.text(), /^\{/);
  });

  test('waiting: a stream says how much of its prompt is computed', async () => {
    const text = await (await reader.post('/v1/chat/completions', { ...prompt, stream: true })).text();
    const counts = [...text.matchAll(/^: prompt (\d+) of (\d+)$/gm)].map(([, ready, total]) => [Number(ready), Number(total)]);
    assert.ok(counts.length > 1 && counts.every(([ready, total], i) => ready < total && ready >= (counts[i - 1]?.[0] ?? 1)), text);
    assert.ok(text.lastIndexOf(': prompt') < text.indexOf('data: '), 'no progress comes behind the first token');
  });
});
