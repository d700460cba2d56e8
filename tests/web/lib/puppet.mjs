// SPDX-License-Identifier: Apache-2.0
// A gateway whose only unit is the puppet (tests/programs/puppet_unit.c): its answers say what the last mark of
// their prompt tells them to, so that tests decide what a model writes. Both read a checkpoint directory made for
// the test: the shape and the words of the model that comes with Fathom, and a model family's template and tokens.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { deepseek } from './families.mjs';
import { Server, binary, root, sleep } from './server.mjs';

const program = path.join(path.dirname(binary), 'tests/programs/puppet_unit');
const model = path.join(root, 'models/tiny-r1');

const mark = (verb) => (text) =>
  `[[${verb}:${encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)}]]`;
// In a message, or in what a tool answers: the model's next answer is this text, special tokens included.
export const say = mark('say');
// This text again and again, until somebody ends it.
export const repeat = mark('repeat');
// This text; then the unit's step fails.
export const fail = mark('fail');
// The prompt as the model reads it; read() makes it of the answer.
export const show = '[[show:]]';
export const read = decodeURIComponent;

// Tokens of the family that the model's own tokenizer lacks get ids behind its own.
async function writeModel(directory, family, contextTokens) {
  const read = async (name) => JSON.parse(await readFile(path.join(model, name), 'utf8'));
  const write = (name, value) => writeFile(path.join(directory, name), JSON.stringify(value));
  const [shape, words, settings] = await Promise.all(['config.json', 'tokenizer.json', 'tokenizer_config.json'].map(read));
  const known = new Set(words.added_tokens.map(({ content }) => content));
  const added = (family.tokens ?? []).filter((content) => !known.has(content)).map((content, i) => ({
    id: shape.vocab_size + i, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
  }));
  words.added_tokens.push(...added);
  shape.vocab_size += added.length;
  shape.max_position_embeddings = contextTokens;
  if (family.end) {
    shape.eos_token_id = words.added_tokens.find(({ content }) => content === family.end).id;
    settings.eos_token = family.end;
  }
  settings.chat_template = family.template;
  await Promise.all([write('config.json', shape), write('tokenizer.json', words), write('tokenizer_config.json', settings)]);
}

const operator = { name: 'watch', key: 'sk-watch', operator: true };

async function writeAccounts(file, accounts) {
  const digits = (key) => createHash('sha256').update(key).digest('hex');
  await writeFile(file, `accounts:\n${accounts.map(({ key, ...account }) =>
    `  - ${JSON.stringify({ ...account, keys: [`sha256:${digits(key)}`] })}\n`).join('')}`);
  return ['--accounts', file];
}

export class Puppet extends Server {
  // `names` are what the model is called; `accounts`, { name, key, ... } each, who may ask: everybody if not given. A
  // step of the puppet takes stepMs; `options` are further ones of the gateway. Resolves when it serves.
  static async start({ family = deepseek, names = 'puppet', accounts, stepMs = 1, contextTokens = 32768, options = [] } = {}) {
    const directory = await mkdtemp(path.join(tmpdir(), 'fathom-puppet-'));
    await writeModel(directory, family, contextTokens);
    const wire = `ipc://${path.join(directory, 'wire')}`;
    const server = await Puppet.launch('gateway', '--listen', wire, '--model', directory, '--served-name', names,
      ...accounts ? await writeAccounts(path.join(directory, 'accounts.yaml'), [...accounts, operator]) : [], ...options);
    server.directory = directory;
    if (accounts) server.operator = { Authorization: `Bearer ${operator.key}` };
    server.unit = spawn(program, [directory, wire, String(stepMs)], { stdio: ['ignore', 'inherit', 'pipe'] });
    server.unit.stderr.on('data', (data) => { server.log += data; });
    server.unitExited = once(server.unit, 'exit');
    while ((await fetch(`${server.url}/health`)).status !== 200) {
      if (server.unit.exitCode !== null) {
        server.child.kill();
        throw new Error(`the puppet ended with ${server.unit.exitCode}: ${server.log}`);
      }
      await sleep(10);
    }
    return server;
  }

  async stop() {
    const result = await super.stop();
    this.unit.kill();
    await this.unitExited;
    await rm(this.directory, { recursive: true });
    return result;
  }
}

// The tool of all tests, as OpenAI's API names it.
export const weather = {
  name: 'weather',
  description: 'What the weather is like at a place.',
  parameters: {
    type: 'object',
    properties: { place: { type: 'string' }, days: { type: 'integer' } },
    required: ['place'],
    additionalProperties: false,
  },
};

// Awkward on purpose: everything that JSON, templates and streams might stumble over.
export const place = 'Köln "Süd" {\\} <b> 100 % 🌧';
