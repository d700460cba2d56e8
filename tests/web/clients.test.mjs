// SPDX-License-Identifier: Apache-2.0
// Protects docs/clients.md from promising what nobody tests: each cell of its table is the name of a test, and each
// test of a client stands in it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { root } from './lib/server.mjs';

const columns = ['openai', 'responses', 'anthropic', 'ai sdk', 'langchain', 'ollama'];

// What a name has at its end for a stream, or another path, or a provider of its own, is left out.
const plain = (name) => name.replace(/\$\{.*/, '').replace(/, streamed$/, '');

const tested = Object.fromEntries(columns.map((column) => {
  const source = readFileSync(new URL(`client_${column.replace(' ', '_')}.test.mjs`, import.meta.url), 'utf8');
  return [column, new Set([...source.matchAll(/^ *test\((['`])(.*)\1, /gm)].map(([, , name]) =>
    plain(name.replace(/\\'/g, "'").replace('${name}: ', '').replace(/^[a-z ]+[:,] (deepseek: |openai-compatible: )?/, ''))))];
}));

const table = readFileSync(`${root}docs/clients.md`, 'utf8').split('\n\n').find((part) => part.startsWith('| | openai'))
  .split('\n').filter((line) => line.startsWith('| ')).slice(1)
  .map((line) => line.split('|').slice(2, -1).map((cell) => plain(cell.trim())));

test('every cell of the table of clients is a test, and every test of a client has its cell', () => {
  columns.forEach((column, i) => {
    const told = new Set(table.map((cells) => cells[i]).filter(Boolean));
    assert.deepEqual([...told].sort(), [...tested[column]].sort(), column);
  });
});
