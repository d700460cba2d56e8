// SPDX-License-Identifier: Apache-2.0
// Protects how tokens are chosen and told, through the official openai client: n, log
// probabilities, logit_bias, penalties, min_tokens, stop_token_ids, echo, token ids; and that none
// of it depends on what else is being computed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { Server, lasting, root, same } from './lib/server.mjs';

let server, client;

before(async () => {
  server = await Server.start('--max-context', '1024', ...same);
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});

after(async () => { await server.stop(); });

const sum = [{ role: 'user', content: 'What is 4728 + 915?' }];
const chat = (more) => client.chat.completions.create({ model: 'default', messages: sum, ...more });
const complete = (more) => client.completions.create({ model: 'default', prompt: 'The fox', ...more });
// A completion of a given length, with its ids.
const ids = async (more) => (await complete(
  { temperature: 0, max_tokens: 12, ignore_eos: true, return_token_ids: true, ...more })).choices[0].token_ids;

test('n answers, each with its own draw', async () => {
  const options = { n: 4, temperature: 1.5, seed: 11, max_tokens: 20, ignore_eos: true };
  const answer = await complete(options);
  assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  assert.equal(new Set(answer.choices.map((choice) => choice.text)).size, 4);
  assert.equal(answer.usage.completion_tokens, 80);
  const again = await complete(options);
  assert.deepEqual(again.choices, answer.choices);
  const one = await complete({ ...options, n: 1 });
  assert.deepEqual(one.choices[0], answer.choices[0]);
  const texts = ['', '', '', ''];
  let usage = null;
  for await (const chunk of await complete({ ...options, stream: true, stream_options: { include_usage: true } })) {
    if (chunk.choices[0]) texts[chunk.choices[0].index] += chunk.choices[0].text;
    usage = chunk.usage ?? usage;
  }
  assert.deepEqual(texts, answer.choices.map((choice) => choice.text));
  assert.deepEqual(lasting(usage), lasting(answer.usage));
});

test('a chat tells the log probabilities of its tokens, whole and streamed', async () => {
  const options = { temperature: 0, logprobs: true, top_logprobs: 3 };
  const { choices: [choice], usage } = await chat(options);
  const { content, reasoning_content: reasoning } = choice.logprobs;
  assert.equal(content.length + reasoning.length, usage.completion_tokens);
  assert.equal(reasoning.length, usage.completion_tokens_details.reasoning_tokens);
  for (const entry of [...content, ...reasoning]) {
    assert.ok(entry.logprob <= 0 && entry.top_logprobs.length === 3);
    assert.equal(entry.top_logprobs[0].token, entry.token); // greedy
    assert.ok(entry.top_logprobs[1].logprob <= entry.top_logprobs[0].logprob);
    assert.equal(Buffer.from(entry.bytes).toString(), entry.token);
    const total = entry.top_logprobs.reduce((a, b) => a + Math.exp(b.logprob), 0);
    assert.ok(total <= 1.0001, `${total}`);
  }
  const said = content.filter((entry) => !entry.token.startsWith('<')).map((entry) => entry.token).join('');
  assert.equal(said.trim(), choice.message.content.trim());
  const streamed = { content: [], reasoning_content: [] };
  for await (const chunk of await chat({ ...options, stream: true })) {
    const told = chunk.choices[0].logprobs;
    if (!told) continue;
    streamed.content.push(...told.content);
    streamed.reasoning_content.push(...told.reasoning_content ?? []);
  }
  assert.deepEqual(streamed, { content, reasoning_content: reasoning });
});

test('a completion tells them in the older shape', async () => {
  const options = { temperature: 0, max_tokens: 8, logprobs: 2 };
  const { choices: [choice] } = await complete(options);
  const told = choice.logprobs;
  for (const list of [told.tokens, told.token_logprobs, told.top_logprobs, told.text_offset])
    assert.equal(list.length, 8);
  assert.equal(told.tokens.join(''), choice.text);
  told.tokens.forEach((token, i) => {
    assert.equal(told.top_logprobs[i][token], told.token_logprobs[i]);
    assert.ok(choice.text.startsWith(token, told.text_offset[i]), `${i}: ${token}`);
  });
  const streamed = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
  for await (const chunk of await complete({ ...options, stream: true }))
    for (const name of Object.keys(streamed))
      streamed[name].push(...chunk.choices[0].logprobs?.[name] ?? []);
  assert.deepEqual(streamed, told);
});

test('log probabilities are those before biases and penalties', async () => {
  const free = await complete({ temperature: 0, max_tokens: 1, logprobs: 1, return_token_ids: true });
  const [best] = free.choices[0].token_ids;
  const banned = await complete(
    { temperature: 0, max_tokens: 1, logprobs: 1, return_token_ids: true, logit_bias: { [best]: -100 } });
  assert.notEqual(banned.choices[0].token_ids[0], best);
  const [name] = free.choices[0].logprobs.tokens;
  assert.equal(banned.choices[0].logprobs.top_logprobs[0][name], free.choices[0].logprobs.token_logprobs[0]);
});

test('logit_bias bans a token and forces one', async () => {
  const free = await ids({});
  const at = free.findLastIndex((id, i) => free.indexOf(id) === i);
  const banned = await ids({ logit_bias: { [free[at]]: -100 } });
  assert.deepEqual(banned.slice(0, at), free.slice(0, at));
  assert.ok(!banned.includes(free[at]));
  assert.deepEqual(await ids({ logit_bias: { 345: 100 }, temperature: 1 }), Array(12).fill(345));
});

test('penalties keep an answer from repeating itself', async () => {
  const stuck = { logit_bias: { 345: 30 }, max_tokens: 30 };
  const repeats = (list) => list.length - new Set(list).size;
  assert.equal(repeats(await ids(stuck)), 29);
  assert.ok(repeats(await ids({ ...stuck, frequency_penalty: 2 })) < 29);
  const free = repeats(await ids({ max_tokens: 60 }));
  for (const penalty of [{ presence_penalty: 2 }, { repetition_penalty: 1.5 }, { frequency_penalty: 1.5 }]) {
    const fewer = repeats(await ids({ max_tokens: 60, ...penalty }));
    assert.ok(fewer <= free, `${JSON.stringify(penalty)}: ${fewer}, without ${free}`);
  }
  assert.ok(repeats(await ids({ max_tokens: 60, repetition_penalty: 3 })) < free || free === 0);
});

test('stop_token_ids end an answer, min_tokens keeps it going', async () => {
  const free = await ids({});
  const at = free.findLastIndex((id, i) => free.indexOf(id) === i);
  const options = { temperature: 0, max_tokens: 12, ignore_eos: true, return_token_ids: true,
    stop_token_ids: [free[at]] };
  const { choices: [stopped] } = await complete(options);
  assert.equal(stopped.finish_reason, 'stop');
  assert.deepEqual(stopped.token_ids, free.slice(0, at + 1));
  const { choices: [longer] } = await complete({ ...options, min_tokens: 12 });
  assert.equal(longer.finish_reason, 'length');
  assert.ok(!longer.token_ids.includes(free[at]));
  const short = await chat({ temperature: 0, min_tokens: 90, max_tokens: 90 });
  assert.equal(short.usage.completion_tokens, 90);
});

test('echo puts the prompt in front, of every answer', async () => {
  const plain = await complete({ temperature: 0, max_tokens: 5 });
  const echoed = await complete({ temperature: 0, max_tokens: 5, echo: true, n: 2 });
  for (const choice of echoed.choices) assert.equal(choice.text, `The fox${plain.choices[0].text}`);
  let text = '';
  for await (const chunk of await complete({ temperature: 0, max_tokens: 5, echo: true, stream: true }))
    text += chunk.choices[0]?.text ?? '';
  assert.equal(text, echoed.choices[0].text);
  await assert.rejects(complete({ echo: true, max_tokens: 0 }), OpenAI.UnprocessableEntityError);
});

test('min_p and top_k narrow the choice down to the likeliest', async () => {
  const greedy = await ids({});
  assert.deepEqual(await ids({ temperature: 2, min_p: 1 }), greedy);
  assert.deepEqual(await ids({ temperature: 2, top_k: 1 }), greedy);
  assert.notDeepEqual(await ids({ temperature: 2, seed: 3, top_p: 1 }), greedy);
});

test('a seed gives the same answer alone and among others', async () => {
  const wishes = { temperature: 1.1, top_p: 0.9, min_p: 0.01, seed: 5, max_tokens: 40, presence_penalty: 0.7,
    frequency_penalty: 0.3, repetition_penalty: 1.1, logit_bias: { 345: 2 }, logprobs: 4, min_tokens: 10,
    return_token_ids: true };
  const alone = (await complete(wishes)).choices[0];
  const crowd = Array.from({ length: 12 }, (_, i) => complete({ ...wishes, seed: 100 + i, n: 1 + i % 3,
    prompt: 'Once upon a time there was a fox '.repeat(1 + i), max_tokens: 30 + i }));
  const among = await Promise.all([complete(wishes), ...crowd.slice(0, 6), complete(wishes), ...crowd.slice(6)]);
  assert.deepEqual(among[0].choices[0], alone);
  assert.deepEqual(among[7].choices[0], alone);
  assert.equal((await server.quiet()).fathom_requests_held, 0);
});

test('wishes out of range are refused by name', async () => {
  const cases = [['n', 17], ['min_p', 2], ['frequency_penalty', 3], ['presence_penalty', -3],
    ['repetition_penalty', 0], ['logit_bias', { 9999999: 1 }], ['logit_bias', { 5: 200 }], ['min_tokens', -1],
    ['stop_token_ids', [1e7]]];
  for (const [name, value] of cases)
    await assert.rejects(complete({ [name]: value, max_tokens: 5 }), (error) => {
      assert.equal(error.status, 422, `${name}: ${error.message}`);
      assert.equal(error.param, name);
      return true;
    });
});

test('a checkpoint without a tokenizer takes and gives token ids', async () => {
  const bare = await Server.start('--model', `${root}tests/golden/v3-bf16-negbias-dense0-mtp`, '--activations', 'f32');
  const ask = new OpenAI({ baseURL: `${bare.url}/v1`, apiKey: 'none', maxRetries: 0 });
  try {
    const options = { model: 'default', prompt: [5, 9, 200], max_tokens: 8, temperature: 0, ignore_eos: true };
    const { choices, usage } = await ask.completions.create({ ...options, n: 2, logprobs: 1 });
    const [{ token_ids: told, text, logprobs }] = choices;
    assert.equal(text, '');
    assert.equal(told.length, 8);
    assert.deepEqual(choices[1].token_ids, told);
    assert.deepEqual(usage, { ...usage, prompt_tokens: 3, completion_tokens: 16 });
    assert.deepEqual(logprobs.tokens, told.map((id) => `token_id:${id}`));
    const streamed = [];
    for await (const chunk of await ask.completions.create({ ...options, stream: true }))
      streamed.push(...chunk.choices[0].token_ids ?? []);
    assert.deepEqual(streamed, told);
    const { choices: [stopped] } = await ask.completions.create({ ...options, stop_token_ids: [told[0]] });
    assert.deepEqual(stopped.token_ids, told.slice(0, 1));
    const refused = (promise, says) => assert.rejects(promise, (error) => {
      assert.equal(error.status, 400);
      assert.match(error.message, says);
      return true;
    });
    await refused(ask.chat.completions.create({ model: 'default', messages: sum }), /chat template/);
    await refused(ask.completions.create({ ...options, prompt: 'hello' }), /token ids/);
    await refused(ask.completions.create({ ...options, stop: 'a' }), /stop strings/);
  } finally {
    await bare.stop();
  }
});
