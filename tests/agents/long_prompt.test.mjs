// SPDX-License-Identifier: Apache-2.0
// Protects agents' first requests, whose prompts have tens of thousands of tokens: while the engine computes one, each
// API sends signs of life, and then the answer. The model is the embedded one, with a longer context.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Server, root, same } from '../web/lib/server.mjs';

const TOKENS = 31000;
let server, directory;

// Each prompt begins with another word, so that none is found in the cache.
const prompt = (word) => `${word} ${'one and two and '.repeat(TOKENS / 4)}`;
const asked = (word, more) => ({ model: 'default', messages: [{ role: 'user', content: prompt(word) }], max_tokens: 8, ...more });

// What came before the first event of the answer's own, and the count of the prompt's tokens.
const ways = {
  'a stream of a chat sends comments': ['/v1/chat/completions', asked('Red', { stream: true, stream_options: { include_usage: true } }),
    /^(: (keep-alive|waiting, \d+ ahead|prompt \d+ of \d+)\n\n)+data: /, /"prompt_tokens":\s?(\d+)/],
  'a whole chat sends blank lines': ['/v1/chat/completions', asked('Green'), /^\n+\{/, /"prompt_tokens":\s?(\d+)/],
  'a stream of a message sends pings': ['/v1/messages', asked('Blue', { stream: true }),
    /^(: .+\nevent: ping\ndata: \{"type":\s?"ping"\}\n\n)+event: message_start/, /"input_tokens":\s?(\d+)/],
  'a stream of Responses sends comments': ['/v1/responses',
    { model: 'default', input: prompt('Black'), max_output_tokens: 8, stream: true }, /: .+\n\n[^]*response.output_item.added/, /"input_tokens":\s?(\d+)/],
};

describe('a prompt of 31,000 tokens', { concurrency: true }, () => {
  before(async () => {
    const model = path.join(root, 'models/tiny-r1');
    directory = await mkdtemp(path.join(tmpdir(), 'fathom-long-'));
    const others = (await readdir(model)).filter((name) => name !== 'config.json');
    await Promise.all(others.map((name) => symlink(path.join(model, name), path.join(directory, name))));
    const shape = JSON.parse(await readFile(path.join(model, 'config.json'), 'utf8'));
    await writeFile(path.join(directory, 'config.json'), JSON.stringify({ ...shape, max_position_embeddings: 32768 }));
    server = await Server.start('--model', directory, ...same);
  });

  after(async () => {
    await server?.stop();
    if (directory) await rm(directory, { recursive: true });
  });

  for (const [name, [where, body, signs, count]] of Object.entries(ways))
    test(`while a prompt of 31,000 tokens is computed, ${name}`, async () => {
      const answer = await server.post(where, body);
      const text = await answer.text();
      assert.equal(answer.status, 200, text);
      assert.match(text, signs);
      assert.ok(Number(text.match(count)[1]) >= TOKENS, text.slice(-1000));
    });
});
