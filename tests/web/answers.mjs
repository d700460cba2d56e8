// SPDX-License-Identifier: Apache-2.0
// answers.mjs DIR [options]: asks the embedded model for answers under the schemas of MaskBench (DIR/data, or
// DIR/maskbench/data), chosen evenly, and judges each that ends by itself by ajv; then asks for the same from every
// shape of service and compares the bytes. `./dev answers` runs it.
//
//   --count N   schemas (500); one that the server refuses, or ajv cannot read, makes way for its neighbour
//   --seeds N   answers to each (3)
//   --tokens N  of an answer at most (700)
//   --ways N    shapes of service, of them the first N (all)
//   --names F   writes what is said of each answer to F
//
// Temperature is 1.5, and quotes and closing brackets are led to by biases: the model has never seen JSON. Fails if an
// answer is invalid, if bytes differ, or if fewer than 60 of 100 schemas had an answer that ended.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { answersFrom, ask, digestOf, each, ways } from './lib/constrained.mjs';
import { judgeOf } from './lib/judge.mjs';
import { Server } from './lib/server.mjs';

const LIMIT = 48; // questions at a time
const ENDED = 60; // of 100 schemas

function options() {
  const number = (fallback) => ({ type: 'string', default: String(fallback) });
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { count: number(500), seeds: number(3), tokens: number(700), ways: number(ways.length), names: { type: 'string' } },
  });
  const below = ['data', 'maskbench/data'].map((name) => path.join(positionals[0] ?? '', name));
  const folder = below.find((name) => positionals[0] && existsSync(name));
  if (!folder) throw new Error(`answers: expected MaskBench's folder, found no ${below.join(' or ')}`);
  const numbers = Object.fromEntries(['count', 'seeds', 'tokens', 'ways'].map((name) => [name, Number(values[name])]));
  for (const [name, value] of Object.entries(numbers))
    if (!Number.isInteger(value) || value < 1) throw new Error(`answers: expected --${name} of at least 1`);
  return { folder, names: values.names, ...numbers };
}

// Schemas that the server takes and ajv can judge, and why the others were passed over.
async function choose({ folder, count }) {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json')).sort();
  const step = Math.max(1, Math.floor(files.length / count));
  const server = await Server.start();
  const passed = { refused: [], unread: [] };
  const take = async (name) => {
    const { schema } = JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
    let judge;
    try {
      judge = judgeOf(schema);
    } catch (error) {
      passed.unread.push(`${name}: ${error.message}`);
      return null;
    }
    const { status, message } = await ask(server, { schema, seed: 0, maxTokens: 1 });
    if (!status) return { name, schema, judge };
    if (status >= 500) throw new Error(`${name}: ${status} ${message}`);
    passed.refused.push(`${name}: ${message}`);
    return null;
  };
  try {
    const starts = Array.from({ length: Math.min(count, files.length) }, (_, i) => i * step);
    const chosen = await each(starts, 4, async (from) => {
      for (let at = from; at < Math.min(from + step, files.length); at++) {
        const found = await take(files[at]);
        if (found) return found;
      }
      return null;
    });
    return { chosen: chosen.filter(Boolean), passed, all: files.length };
  } finally {
    await server.stop();
  }
}

const percent = (part, whole) => `${(100 * part / whole).toFixed(1)} %`;

// What the answers of one shape are worth; the lines are one for each answer.
function judge(cases, answers, seeds) {
  const lines = [], invalid = [];
  const ended = new Set();
  let stopped = 0;
  answers.forEach((answer, i) => {
    const { name, judge: verdict } = cases[Math.floor(i / seeds)];
    let said = answer.reason ?? `${answer.status}: ${answer.message}`;
    if (answer.reason === 'stop') {
      stopped++;
      ended.add(name);
      said = verdict(answer.text) ?? 'stop';
    }
    if (said !== 'stop' && said !== 'length') invalid.push(`${name}, seed ${i % seeds}: ${said}: ${answer.text}`);
    lines.push(`${name}, seed ${i % seeds}, ${answer.tokens} tokens, ${said}: ${JSON.stringify(answer.text)}`);
  });
  return { lines, invalid, ended: ended.size, stopped };
}

function differences(answers, wanted, seeds, cases) {
  return answers.flatMap((answer, i) => answer.text === wanted[i].text && answer.reason === wanted[i].reason ? [] :
    [`${cases[Math.floor(i / seeds)].name}, seed ${i % seeds}:\n    ${JSON.stringify(wanted[i])}\n    ${JSON.stringify(answer)}`]);
}

const show = (title, list) => {
  if (list.length) console.log([`  ${title}: ${list.length}`, ...list.slice(0, 10).map((line) => `    ${line.slice(0, 2000)}`)].join('\n'));
};

async function main() {
  const given = options();
  const { chosen, passed, all } = await choose(given);
  console.log(`${chosen.length} of ${all} schemas, chosen evenly; passed over: ${passed.refused.length} that the server ` +
    `refuses, ${passed.unread.length} that ajv cannot read`);
  show('refused', passed.refused);
  const questions = chosen.flatMap(({ schema }, i) => Array.from({ length: given.seeds }, (_, seed) =>
    ({ schema, seed: i * given.seeds + seed, stream: (i + seed) % 2 === 0, maxTokens: given.tokens })));
  let wanted, failed = false;
  for (const way of ways.slice(0, given.ways)) {
    const { answers, seconds, fleet } = await answersFrom(way, questions,
      { limit: LIMIT, pieces: questions.length * 10 });
    const tokens = answers.reduce((sum, answer) => sum + (answer.tokens ?? 0), 0);
    const { lines, invalid, ended, stopped } = judge(chosen, answers, given.seeds);
    console.log(`${way.name}: ${answers.length} answers, ${tokens} tokens in ${seconds.toFixed(0)} s, sha256 ${digestOf(answers)}`);
    console.log(`  ended within ${given.tokens} tokens: ${percent(ended, chosen.length)} of schemas, ` +
      `${percent(stopped, answers.length)} of answers; invalid: ${invalid.length}; handed over ${fleet.handed_over_total}, ` +
      `went on elsewhere ${fleet.resumed_total}`);
    show('invalid', invalid);
    const other = wanted ? differences(answers, wanted, given.seeds, chosen) : [];
    show('differ', other);
    failed ||= invalid.length > 0 || other.length > 0 || 100 * ended < ENDED * chosen.length;
    if (!wanted && given.names) writeFileSync(given.names, lines.map((line) => `${line}\n`).join(''));
    wanted ??= answers;
  }
  return failed ? 1 : 0;
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
