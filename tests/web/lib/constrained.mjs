// SPDX-License-Identifier: Apache-2.0
// Answers under schemas from every shape of service: who asks, what is compared, and what is said of it. Shared by the
// test of a few schemas (constrained_ways.test.mjs) and the command of many (answers.mjs).
import { createHash } from 'node:crypto';
import { Server, sleep } from './server.mjs';
import { tokensWith } from './tiny.mjs';

// Shapes of service that give the same answers. `harm`: a unit is killed while its answers come.
export const ways = [
  { name: 'one process', options: ['--mtp', 'off'] },
  { name: 'two ranks', options: ['--mtp', 'off', '--ranks', '2'] },
  { name: 'with drafts', options: ['--mtp', 'on'] },
  { name: 'prefill and decode apart', options: ['--prefill-units', '1', '--decode-units', '1'], units: 2 },
  { name: 'one of two units killed', options: ['--units', '2'], units: 2, harm: true },
];

const fleetOf = async (server) => (await fetch(`${server.admin}/debug/fleet`)).json();

async function start({ options, units = 1 }, more) {
  const server = await Server.start(...options, ...more);
  while ((await fleetOf(server)).units.filter(({ state }) => state === 'serving').length < units) await sleep(20);
  return server;
}

// A hot model that has never seen JSON would end no string by itself, nor find the keys that a schema requires among all
// others: every other answer has its keys in order.
const ends = { ...Object.fromEntries(tokensWith('"').map((id) => [id, 12])),
  ...Object.fromEntries([...tokensWith('}'), ...tokensWith(']')].map((id) => [id, 8])) };

// { text, reason, tokens } or, where the server refuses it, { status, message }. `onPiece` is called for each piece of
// a stream.
export async function ask(server, { schema, seed, stream = false, maxTokens = 700 }, onPiece = () => {}) {
  const response = await server.post('/v1/completions', {
    prompt: 'Write JSON: ', temperature: 1.5, top_p: 1, seed, max_tokens: maxTokens, stream, strict_order: seed % 2 === 1, logit_bias: ends,
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } },
    ...stream && { stream_options: { include_usage: true } },
  });
  if (response.status !== 200) {
    const { error } = await response.json();
    return { status: response.status, message: error.message };
  }
  const answer = { text: '', reason: null, tokens: 0 };
  const take = ({ choices, usage, error }) => {
    if (error) throw new Error(error.message);
    answer.text += choices[0]?.text ?? '';
    answer.reason = choices[0]?.finish_reason ?? answer.reason;
    answer.tokens = usage?.completion_tokens ?? answer.tokens;
  };
  if (!stream) {
    take(await response.json());
    return answer;
  }
  let rest = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: {')) continue;
      take(JSON.parse(line.slice(6)));
      onPiece();
    }
  }
  return answer;
}

// All results, in the order of `list`; `limit` at a time.
export async function each(list, limit, work) {
  const results = [];
  let next = 0;
  await Promise.all(Array.from({ length: limit }, async () => {
    while (next < list.length) {
      const i = next++;
      results[i] = await work(list[i], i);
    }
  }));
  return results;
}

// Kills a unit once so many pieces have come; resolves when it is there again.
function harm(server, pieces) {
  let left = pieces, back;
  return {
    onPiece: () => { if (--left === 0) back = strike(server); },
    done: async () => {
      if (!back) throw new Error(`no unit was killed: ${left} pieces are missing`);
      await back;
    },
  };
}

async function strike(server) {
  const [busiest] = (await fleetOf(server)).units.sort((a, b) => b.requests_running - a.requests_running);
  process.kill(busiest.ranks[0].pid, 'SIGKILL');
  while (!/a unit ended, it starts again job=\d+ how="signal 9"[^]*is there again/.test(server.log)) await sleep(20);
}

// Every question's answer from a server of that shape, and what the server then tells of itself. With `harm` the unit dies after
// `pieces` pieces of streams.
export async function answersFrom(way, questions, { limit = 32, pieces = 100, options = [] } = {}) {
  const server = await start(way, options);
  try {
    const began = performance.now();
    const harmed = way.harm ? harm(server, pieces) : { onPiece: () => {}, done: async () => {} };
    const answers = await each(questions, limit, (question) => ask(server, question, harmed.onPiece));
    await harmed.done();
    const seconds = (performance.now() - began) / 1000;
    return { answers, seconds, metrics: await server.quiet(), fleet: await fleetOf(server) };
  } finally {
    await server.stop();
  }
}

// Equal for equal answers.
export function digestOf(answers) {
  const hash = createHash('sha256');
  for (const { text, reason, status } of answers) hash.update(JSON.stringify([text ?? null, reason ?? status]));
  return hash.digest('hex');
}
