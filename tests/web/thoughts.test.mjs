// SPDX-License-Identifier: Apache-2.0
// Protects that thoughts are never taken for the answer where an answer goes on, comes behind a tool's result, or was
// not to think: in every API, whole and streamed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Puppet, say } from './lib/puppet.mjs';

let server;

before(async () => { server = await Puppet.start(); });
after(() => server?.stop());

const post = async (path, body) => {
  const response = await fetch(`${server.url}${path}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ model: 'puppet', ...body }) });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text;
};
const json = async (path, body) => JSON.parse(await post(path, body));
const stream = async (path, body) => (await post(path, { ...body, stream: true })).split('\n')
  .filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
const join = (list) => list.map((text) => text ?? '').join('');

// What each API says: { text, thoughts }, whole and streamed.
const chat = (body) => Promise.all([
  json('/v1/chat/completions', body).then(({ choices: [{ message }] }) => ({ text: message.content, thoughts: message.reasoning_content ?? '' })),
  stream('/v1/chat/completions', body).then((chunks) => chunks.flatMap(({ choices }) => choices).map(({ delta }) => delta))
    .then((deltas) => ({ text: join(deltas.map(({ content }) => content)), thoughts: join(deltas.map((delta) => delta.reasoning_content)) })),
]);
const messages = (body) => Promise.all([
  json('/v1/messages', { max_tokens: 500, ...body }).then(({ content }) => ({ text: join(content.map(({ text }) => text)), thoughts: join(content.map(({ thinking }) => thinking)) })),
  stream('/v1/messages', { max_tokens: 500, ...body }).then((events) => events.flatMap(({ delta }) => delta ?? []))
    .then((deltas) => ({ text: join(deltas.map(({ text }) => text)), thoughts: join(deltas.map(({ thinking }) => thinking)) })),
]);
const responses = (body) => {
  const of = ({ output }) => {
    const texts = (type) => join(output.filter((item) => item.type === type).flatMap(({ content }) => content).map(({ text }) => text));
    return { text: texts('message'), thoughts: texts('reasoning') };
  };
  const deltas = (events, type) => join(events.filter((event) => event.type === type).map(({ delta }) => delta));
  return Promise.all([
    json('/v1/responses', body).then(of),
    stream('/v1/responses', body).then((events) => {
      assert.deepEqual(of(events.at(-1).response), { text: deltas(events, 'response.output_text.delta'), thoughts: deltas(events, 'response.reasoning_text.delta') });
      return of(events.at(-1).response);
    }),
  ]);
};

const user = (words) => ({ role: 'user', content: say(words) });
const begun = (content, more) => ({ role: 'assistant', content, ...more });
// Behind a result, in each API's words.
const behindResult = {
  chat: (words) => [{ role: 'user', content: 'q' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'c', content: say(words) }],
  messages: (words) => [{ role: 'user', content: 'q' }, { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: say(words) }] }],
  responses: (words) => [{ role: 'user', content: 'q' }, { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: say(words) }],
};

// What the model writes, and what is to be read of it.
const written = [
  ['<think>\nHm.\n</think>\n\nYes.', { text: 'Yes.', thoughts: 'Hm.' }],
  ['So.<think>\nHm.\n</think>Yes.', { text: 'So.Yes.', thoughts: 'Hm.' }],
  ['So.</think>Yes.', { text: 'So.Yes.', thoughts: '' }],
  ['</think>\n\nYes.', { text: 'Yes.', thoughts: '' }],
  ['<think>Hm', { text: '', thoughts: 'Hm' }],
  ['So.<think>a</think>b</think>c<think>d</think>e', { text: 'So.bce', thoughts: 'ad' }],
  ['Plain.', { text: 'Plain.', thoughts: '' }],
];

const reads = async (name, ask, answers) => {
  for (const [words, expected] of answers)
    for (const got of await ask(words)) assert.deepEqual(got, expected, `${name}: ${words}`);
};

test('thoughts of an answer that goes on are no content', async () => {
  const ways = {
    prefix: (words) => chat({ messages: [user(words), begun('Well,', { prefix: true })] }),
    'a final message': (words) => chat({ messages: [user(words), begun('Well,')], continue_final_message: true, add_generation_prompt: false }),
    'a prefix behind its thoughts': (words) => chat({ messages: [user(words), begun('<think>x</think>Well,', { prefix: true })] }),
    messages: (words) => messages({ messages: [user(words), begun('Well,')] }),
    'messages that do not think': (words) => messages({ thinking: { type: 'disabled' }, messages: [user(words), begun('Well,')] }),
  };
  for (const [name, ask] of Object.entries(ways)) await reads(name, ask, written);
});

test('a prefix inside a thought goes on with the thought', async () => {
  for (const got of await chat({ messages: [user('m.\n</think>\n\nYes.'), begun('<think>\nH', { prefix: true })] }))
    assert.deepEqual(got, { text: 'Yes.', thoughts: 'm.' });
});

test('thoughts behind the result of a tool are no content', async () => {
  await reads('chat', (words) => chat({ messages: behindResult.chat(words) }), written);
  await reads('messages', (words) => messages({ messages: behindResult.messages(words) }), written);
  await reads('responses', (words) => responses({ input: behindResult.responses(words) }), written);
});

test('a model that thinks although it was asked not to says no thoughts as content', async () => {
  const answers = written.filter(([words]) => !words.startsWith('So.<'));
  await reads('chat', (words) => chat({ thinking: { type: 'disabled' }, messages: [user(words)] }), answers);
  await reads('messages', (words) => messages({ thinking: { type: 'disabled' }, messages: [user(words)] }), answers);
  await reads('responses', (words) => responses({ reasoning: { effort: 'none' }, input: [user(words)] }), answers);
});

test('a fresh answer may write about tags', async () => {
  const words = 'R1 writes <think>x</think> first.';
  for (const got of await chat({ thinking: { type: 'disabled' }, messages: [user(words)] }))
    assert.deepEqual(got, { text: words, thoughts: '' });
});

test('blocks of a message come in the order in which the model wrote them', async () => {
  const words = 'So.<think>Hm.</think>Yes.';
  const body = { max_tokens: 500, messages: behindResult.messages(words) };
  const { content } = await json('/v1/messages', body);
  assert.deepEqual(content.map(({ type }) => type), ['text', 'thinking', 'text']);
  const events = await stream('/v1/messages', body);
  assert.deepEqual(events.flatMap(({ content_block: block }) => block?.type ?? []), ['text', 'thinking', 'text']);
});

test('log probabilities of thoughts and of content are told apart', async () => {
  const body = { logprobs: true, messages: behindResult.chat('So.<think>Hm.</think>Yes.') };
  const { choices: [{ logprobs }] } = await json('/v1/chat/completions', body);
  const text = (list) => Buffer.from(list.flatMap(({ bytes }) => bytes ?? [])).toString();
  assert.match(text(logprobs.content), /^So\.Yes\./);
  assert.match(text(logprobs.reasoning_content), /Hm\./);
  const chunks = await stream('/v1/chat/completions', body);
  const streamed = (name) => chunks.flatMap(({ choices }) => choices[0]?.logprobs?.[name] ?? []);
  assert.deepEqual(streamed('content'), logprobs.content);
  assert.deepEqual(streamed('reasoning_content'), logprobs.reasoning_content);
});
