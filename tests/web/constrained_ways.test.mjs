// SPDX-License-Identifier: Apache-2.0
// Protects constrained answers in every shape of service: whatever a hot model would like to say, an answer that ends by
// itself is JSON of its schema, and its bytes are the same from one process, two ranks, with drafts, from prefill and
// decode units, and from a unit that dies in the middle. `./dev answers` asks the same of hundreds of schemas.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { answersFrom, ways } from './lib/constrained.mjs';
import { judgeOf } from './lib/judge.mjs';
import { schemas } from './lib/schemas.mjs';

const questions = Object.entries(schemas).map(([name, schema], i) => ({ name, schema, seed: 7, stream: i % 2 === 0 }));
const [alone, ...others] = ways;
let wanted;

before(async () => { wanted = (await answersFrom(alone, questions)).answers; });

for (const { name, schema } of questions) {
  test(`${name}: an answer is JSON of its schema`, () => {
    const answer = wanted[questions.findIndex((question) => question.name === name)];
    assert.equal(answer.reason, 'stop', JSON.stringify(answer));
    assert.equal(judgeOf(schema)(answer.text), null, answer.text);
  });
}

// That the shape did what it is here for.
const happened = {
  'with drafts': ({ metrics }) => metrics.fathom_drafts_accepted_total,
  'prefill and decode apart': ({ fleet }) => fleet.handed_over_total,
  'one of two units killed': ({ fleet }) => fleet.resumed_total,
};

for (const way of others) {
  test(`${way.name}: the same answers, to the byte`, async () => {
    const found = await answersFrom(way, questions);
    const told = (list) => list.map(({ text, reason }, i) => [questions[i].name, text, reason]);
    assert.deepEqual(told(found.answers), told(wanted));
    if (way.name in happened) assert.ok(happened[way.name](found) > 0);
  });
}
