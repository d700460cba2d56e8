// SPDX-License-Identifier: Apache-2.0
// The embedded model with a template that has a place for tools, and thinks where it is asked to. What it says is its own:
// tests look at what the server lets it say.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { deepseek } from './families.mjs';
import { Server, root, same } from './server.mjs';

export class Tiny extends Server {
  static async start(...options) {
    const directory = await mkdtemp(path.join(tmpdir(), 'fathom-tiny-'));
    const file = path.join(directory, 'template.jinja');
    await writeFile(file, deepseek.template);
    const server = await Tiny.launch('serve', '--chat-template', file, ...same, ...options);
    server.directory = directory;
    return server;
  }

  async stop() {
    const result = await super.stop();
    await rm(this.directory, { recursive: true });
    return result;
  }
}

// The ids of all tokens whose text has this in it.
export function tokensWith(part) {
  const { model: { vocab }, added_tokens: added } = JSON.parse(readFileSync(`${root}models/tiny-r1/tokenizer.json`, 'utf8'));
  return [...Object.entries(vocab), ...added.map(({ content, id }) => [content, id])]
    .filter(([text]) => text.includes(part)).map(([, id]) => id);
}
