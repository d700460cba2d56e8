// SPDX-License-Identifier: Apache-2.0
// Protects the whole path from question to answer: the model that comes with Fathom answers the
// questions of its own evaluation as its card says, in every activation mode, over HTTP.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Server, root } from './lib/server.mjs';

const read = (name) => readFileSync(`${root}models/tiny-r1/${name}`, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const questions = read('eval.jsonl');
// "| arithmetic/add | 40/40 = 100.0 % |"; the row `all` comes first.
const card = Object.fromEntries([...readFileSync(`${root}models/tiny-r1/MODEL_CARD.md`, 'utf8')
  .matchAll(/^\| ([a-z/]+) \| (\d+)\/(\d+) = /gm)].map(([, kind, right]) => [kind, Number(right)]));
const atOnce = 16;
const results = {};

async function answerOf(server, { messages, tools }) {
  const response = await server.post('/v1/chat/completions', { messages, tools, temperature: 0, max_tokens: 700 });
  assert.equal(response.status, 200);
  return (await response.json()).choices[0].message;
}

const parsed = (text) => { try { return JSON.parse(text); } catch { return text; } };

// A call with its name and all arguments, an answer in JSON with its values, any other answer as text.
function isRight({ kind, answer, call }, message) {
  const calls = (message.tool_calls ?? []).map(({ function: { name, arguments: given } }) => ({ name, arguments: parsed(given) }));
  if (call) return isDeepStrictEqual(calls, [call]);
  const text = (message.content ?? '').trim();
  return calls.length === 0 && (kind === 'json' ? isDeepStrictEqual(parsed(text), JSON.parse(answer)) : text === answer);
}

async function rightAnswers(mode, questions) {
  const server = await Server.start('--activations', mode);
  const right = { all: 0 };
  try {
    let next = 0;
    const worker = async () => {
      while (next < questions.length) {
        const question = questions[next++];
        if (!isRight(question, await answerOf(server, question))) continue;
        for (const kind of ['all', question.kind, `${question.kind}/${question.sub}`])
          right[kind] = (right[kind] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
  return right;
}

// Two of a hundred questions; one question in f32, where only equal logits can differ.
const allowed = { f32: 1, bf16: 8, fp8: 8 };

for (const mode of Object.keys(allowed)) {
  test(`tiny-r1 answers as its card says: ${mode}`, async (t) => {
    assert.equal(questions.length, 400);
    assert.equal(card.all, 383);
    results[mode] = await rightAnswers(mode, questions);
    t.diagnostic(`${mode}: ${results[mode].all}/400; card: ${card.all}/400; ` +
      Object.keys(card).filter((kind) => kind.includes('/'))
        .map((kind) => `${kind} ${results[mode][kind] ?? 0} (${card[kind]})`).join(', '));
    assert.ok(Math.abs(results[mode].all - card.all) <= allowed[mode] ||
      results[mode].all > card.all && mode !== 'f32',
    `${results[mode].all} right, the card says ${card.all}`);
  });
}

// "| call | call a tool: ... | 68/80 = 85.0 % |"
test('tiny-r1 calls tools and answers in JSON as its card says', async (t) => {
  const rows = [...readFileSync(`${root}models/tiny-r1/MODEL_CARD.md`, 'utf8').matchAll(/^\| ([a-z]+) \| [^|]+ \| (\d+)\/(\d+) = /gm)];
  const right = await rightAnswers('bf16', read('eval_tools.jsonl'));
  assert.deepEqual(rows.map(([, kind]) => kind), ['call', 'again', 'nofit', 'plain', 'result', 'json']);
  for (const [, kind, count, all] of rows) {
    t.diagnostic(`${kind}: ${right[kind]}/${all}; card: ${count}/${all}`);
    assert.ok(right[kind] >= Number(count) - Math.max(2, 0.05 * all), `${kind}: ${right[kind]} right, the card says ${count}`);
  }
});
