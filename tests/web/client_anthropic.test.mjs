// SPDX-License-Identifier: Apache-2.0
// Protects what programs do with Anthropic's own client. What the model writes is decided by each test
// (lib/puppet.mjs), but where constraints are: there it is a real one that knows nothing of schemas (lib/tiny.mjs).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaZodOutputFormat, betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod/v4';
import { alternating, deepseek } from './lib/families.mjs';
import { Puppet, fail, place, read, repeat, say, show, weather } from './lib/puppet.mjs';
import { Server, same } from './lib/server.mjs';
import { Tiny } from './lib/tiny.mjs';

const key = 'sk-ant-acme';
let server, client;
const clientOf = (apiKey, base = '') => new Anthropic({ baseURL: server.url + base, apiKey, maxRetries: 0 });

before(async () => {
  server = await Puppet.start({ stepMs: 2, accounts: [{ name: 'acme', key }] });
  client = clientOf(key);
});

after(() => server?.stop());

const { calls } = deepseek;
const { name, description, parameters: input_schema } = weather;
const tools = [{ name, description, input_schema }];
const thinking = { type: 'enabled', budget_tokens: 1024 };
const body = (content, more) => ({ model: 'puppet', max_tokens: 2000, messages: [{ role: 'user', content }], ...more });
const ask = (content, more = {}) => client.messages.create(body(content, more));
const typesOf = ({ content }) => content.map(({ type }) => type);

for (const base of ['', '/anthropic']) {
  test(`anthropic: a message has content, a reason and usage${base && `, under ${base}`}`, async () => {
    const answer = await clientOf(key, base).messages.create(body(say('Hello, “world” 🙂')));
    assert.deepEqual([answer.type, answer.role, answer.model], ['message', 'assistant', 'puppet']);
    assert.deepEqual(answer.content, [{ type: 'text', text: 'Hello, “world” 🙂' }]);
    assert.deepEqual([answer.stop_reason, answer.stop_sequence], ['end_turn', null]);
    assert.ok(answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 0);
    assert.ok(answer.usage.output_tokens > 0);
    assert.match(answer.id, /^msg_/);
    assert.match(answer._request_id, /^[0-9a-f]{32}$/);
  });
}

test('anthropic: an agent\'s conversation fits a template that wants turns to alternate', async () => {
  const strict = await Puppet.start({ family: alternating });
  try {
    const told = (text) => ({ type: 'text', text, cache_control: { type: 'ephemeral' } });
    const cut = { type: 'tool_use', id: 'toolu_2', name, input: { INVALID_JSON: '{"place": "Os' } };
    const answer = await new Anthropic({ baseURL: strict.url, apiKey: 'none', maxRetries: 0 }).beta.messages.create({
      model: 'puppet', max_tokens: 2000, betas: ['interleaved-thinking-2025-05-14'], thinking: { type: 'adaptive' },
      output_config: { effort: 'high' }, metadata: { user_id: '{"device_id":"d","session_id":"s"}' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      system: [told('You are an agent.'), told('Be brief.')],
      tools: [{ ...tools[0], eager_input_streaming: true, cache_control: { type: 'ephemeral' } }],
      messages: [
        { role: 'user', content: [told('<reminder>First.</reminder>'), told('Look.')] },
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm.', signature: '' }, { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'toolu_1', name, input: { place } }, cut] },
        { role: 'user', content: [
          { type: 'tool_result', tool_use_id: 'toolu_1', content: [told('rain')] },
          { type: 'tool_result', tool_use_id: 'toolu_2', is_error: true, content: 'No JSON.' }, told('Second.')] },
        { role: 'system', content: 'Third.' },
        { role: 'user', content: show },
      ],
    });
    const prompt = read(answer.content[0].thinking); // the model is asked to think
    const order = ['You are an agent.', 'Be brief.', 'First.', 'Look.', 'I look.', 'Köln', 'Os', 'rain', 'No JSON.', 'Second.', 'Third.'];
    const places = order.map((words) => prompt.indexOf(words));
    assert.ok(places.every((at, i) => at > (i ? places[i - 1] : -1)), `${places}: ${prompt}`);
    assert.match(prompt, /No JSON\.\n\nSecond\.\n\nThird\.\n\n/);
  } finally {
    await strict.stop();
  }
});

test('anthropic: every name of the model is in the list, under both base URLs', async () => {
  for (const base of ['', '/anthropic']) {
    const theirs = clientOf(key, base);
    const ids = [];
    for await (const { id, type, created_at, max_tokens } of theirs.models.list()) {
      assert.deepEqual([type, Date.parse(created_at), max_tokens > 0], ['model', 0, true]);
      ids.push(id);
    }
    assert.ok(ids.includes('puppet') && ids.includes('deepseek-chat'), String(ids));
    const one = await theirs.models.retrieve('puppet');
    assert.deepEqual([one.id, one.display_name], ['puppet', 'puppet']);
    await assert.rejects(theirs.models.retrieve('claude'), (error) => error instanceof Anthropic.NotFoundError &&
      error.type === 'not_found_error');
    await assert.rejects(clientOf('no', base).models.list(), (error) => error instanceof Anthropic.AuthenticationError &&
      error.type === 'authentication_error');
  }
});

test('anthropic: what there is not, and what HTTP refuses, are errors of the shape that the client reads', async () => {
  await assert.rejects(client.messages.batches.list(), (error) => error instanceof Anthropic.NotFoundError &&
    error.type === 'not_found_error' && /no '\/v1\/messages\/batches'/.test(error.message));
  const errors = [['/v1/messages', 415, 'invalid_request_error', 'text/plain'], ['/anthropic/v1/x', 404, 'not_found_error']];
  for (const [path, status, type, as = 'application/json'] of errors) {
    const answer = await fetch(server.url + path, { method: 'POST', headers: { 'Content-Type': as, 'X-Api-Key': key }, body: '{}' });
    const { type: kind, error } = await answer.json();
    assert.deepEqual([answer.status, kind, error.type], [status, 'error', type]);
    assert.ok(error.message);
  }
});

test('anthropic: the stream helper puts the same message together', async () => {
  const text = 'One, two,\n\n  three: ünïcödé 🙂🙃.';
  const pieces = [];
  const stream = client.messages.stream(body(say(text))).on('text', (piece) => pieces.push(piece));
  const message = await stream.finalMessage();
  assert.deepEqual(message.content, [{ type: 'text', text }]);
  assert.equal(pieces.join(''), text);
  assert.ok(pieces.length > 3);
  assert.equal(message.stop_reason, 'end_turn');
  assert.equal(message.usage.output_tokens, (await ask(say(text))).usage.output_tokens);
});

test('anthropic: a stream opens and closes each of its blocks', async () => {
  const order = [];
  const content = say(`I ponder.</think>So.${calls([['weather', { place }]])}`);
  for await (const event of await ask(content, { tools, thinking, stream: true })) {
    const at = 'index' in event ? ` ${event.index}` : '';
    const told = `${event.type}${at} ${event.delta?.type ?? event.content_block?.type ?? ''}`.trim();
    if (order.at(-1) !== told && event.type !== 'ping' && event.delta?.type !== 'signature_delta') order.push(told);
  }
  assert.deepEqual(order, ['message_start',
    'content_block_start 0 thinking', 'content_block_delta 0 thinking_delta', 'content_block_stop 0',
    'content_block_start 1 text', 'content_block_delta 1 text_delta', 'content_block_stop 1',
    'content_block_start 2 tool_use', 'content_block_delta 2 input_json_delta', 'content_block_stop 2',
    'message_delta', 'message_stop']);
});

test('anthropic: thoughts are a block before the text, whole and streamed', async () => {
  const content = say('I ponder.</think>Forty-two.');
  const answer = await ask(content, { thinking });
  assert.deepEqual(typesOf(answer), ['thinking', 'text']);
  assert.equal(answer.content[0].thinking, 'I ponder.');
  assert.equal(typeof answer.content[0].signature, 'string');
  const streamed = await client.messages.stream(body(content, { thinking })).finalMessage();
  assert.deepEqual(streamed.content, answer.content);
  const { content: [{ text: without }] } = await ask(show);
  assert.ok(read(without).endsWith('</think>'));
});

for (const streamed of [false, true]) {
  test(`anthropic: a tool is used, and its result goes back${streamed ? ', streamed' : ''}`, async () => {
    const send = (request) =>
      streamed ? client.messages.stream(request).finalMessage() : client.messages.create(request);
    const made = calls([['weather', { place, days: 2 }], ['weather', { place: 'Oslo' }]]);
    const content = say(`I must look.</think>Let me look.${made}`);
    const request = body(content, { tools, thinking });
    const first = await send(request);
    assert.deepEqual(typesOf(first), ['thinking', 'text', 'tool_use', 'tool_use']);
    assert.equal(first.stop_reason, 'tool_use');
    const [, , a, b] = first.content;
    assert.deepEqual([a.name, a.input, b.input], ['weather', { place, days: 2 }, { place: 'Oslo' }]);
    assert.notEqual(a.id, b.id);
    const results = (last) => ({
      role: 'user', content: [
        { type: 'tool_result', tool_use_id: a.id, content: 'rain' },
        { type: 'tool_result', tool_use_id: b.id, content: [{ type: 'text', text: 'snow' }], is_error: true },
        { type: 'text', text: last }],
    });
    const history = [...request.messages, { role: 'assistant', content: first.content }];
    const second = await send({ ...request, messages: [...history, results(say('So.</think>Rain and snow.'))] });
    assert.deepEqual(second.content.at(-1), { type: 'text', text: 'Rain and snow.' });
    const messages = [...history, results(`So?${show}`)];
    const third = await send({ ...request, thinking: { type: 'disabled' }, messages });
    const prompt = read(third.content[0].text);
    assert.match(prompt, /Let me look\.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather/);
    assert.match(prompt, /<｜tool▁output▁begin｜>rain<｜tool▁output▁end｜>/);
    assert.match(prompt, /<｜tool▁output▁begin｜>[^<]*snow<｜tool▁output▁end｜><｜User｜>So\?/);
  });
}

test('anthropic: a system prompt, in words or blocks, is what the model reads first', async () => {
  for (const system of ['Be brief.', [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]]) {
    const { content: [{ text }] } = await ask(`Hello${show}`, { system });
    assert.match(read(text), /Be brief\.\s*<｜User｜>Hello/);
  }
});

test('anthropic: a stop sequence and a limit end a message and say so', async () => {
  const stopped = await ask(say('one two three'), { stop_sequences: ['two', ' three'] });
  assert.deepEqual([stopped.content[0].text, stopped.stop_reason, stopped.stop_sequence],
    ['one ', 'stop_sequence', 'two']);
  const cut = await ask(repeat('on and '), { max_tokens: 9 });
  assert.deepEqual([cut.stop_reason, cut.usage.output_tokens], ['max_tokens', 9]);
});

test('anthropic: a call that is cut has an input all the same', async () => {
  const answer = await ask(say(calls([['weather', { place: 'very '.repeat(50) }]])), { tools, max_tokens: 30 });
  assert.equal(answer.stop_reason, 'max_tokens');
  const call = answer.content.find(({ type }) => type === 'tool_use');
  assert.equal(call.name, 'weather');
  assert.match(JSON.stringify(call.input), /very very/);
});

test('anthropic: countTokens counts what messages.create reads', async () => {
  const { max_tokens, ...request } = body(say('Hello'), { system: 'Be brief.', tools });
  assert.ok(max_tokens);
  const { input_tokens: counted } = await client.messages.countTokens(request);
  const { usage } = await client.messages.create({ ...request, max_tokens });
  assert.equal(counted, usage.input_tokens + usage.cache_read_input_tokens);
});

test('anthropic: pings and the progress of a prompt come ahead of a message', async () => {
  const sluggish = await Puppet.start({ stepMs: 2000 });
  try {
    const patient = new Anthropic({ baseURL: sluggish.url, apiKey: 'none', maxRetries: 0 });
    const asked = (word) => body(`${word} ${'one and two '.repeat(4000)}${say('Read.')}`);
    const [message, raw] = await Promise.all([patient.messages.stream(asked('Red')).finalMessage(),
      sluggish.post('/v1/messages', { ...asked('Blue'), stream: true }).then((response) => response.text())]);
    assert.equal(message.content.at(-1).text, 'Read.');
    assert.match(raw, /^(: .+\nevent: ping\ndata: \{"type":"ping"\}\n\n)*: prompt \d+ of \d+\nevent: ping\n/);
  } finally {
    await sluggish.stop();
  }
});

test('anthropic: a message that is aborted in mid-stream gives its pages back', async () => {
  const stream = await ask(repeat('again '), { stream: true, max_tokens: 20000 });
  let pieces = 0;
  for await (const event of stream) {
    assert.ok(event.type);
    if (++pieces === 8) stream.controller.abort();
  }
  assert.ok(pieces >= 8);
  assert.equal((await server.quiet())['fathom_kv_pages{state="held"}'], 0);
});

test('anthropic: an engine that fails in mid-message pauses the turn, so that a client may go on', async () => {
  const message = await client.messages.stream(body(fail('so far '))).finalMessage();
  assert.deepEqual([message.content, message.stop_reason], [[{ type: 'text', text: 'so far ' }], 'pause_turn']);
  const next = await client.messages.create(body(say('well')));
  assert.equal(next.stop_reason, 'end_turn');
});

let tiny, constrained;
before(async () => {
  tiny = await Tiny.start();
  constrained = new Anthropic({ baseURL: tiny.url, apiKey: 'none', maxRetries: 0 });
});
after(() => tiny?.stop());

const who = { model: 'default', max_tokens: 1500, temperature: 1, messages: [{ role: 'user', content: 'Who?' }] };
// This client tells the model of enums in words alone, so strings are bound by their format.
const Pet = z.object({ tame: z.boolean(), born: z.iso.date(), eats: z.object({ fish: z.boolean(), nuts: z.boolean() }) });

test('anthropic: messages.parse brings what a zod schema describes', async () => {
  const message = await constrained.messages.parse({ ...who, output_config: { format: zodOutputFormat(Pet) } });
  assert.equal(message.stop_reason, 'end_turn');
  assert.deepEqual(Pet.parse(message.parsed_output), JSON.parse(message.content[0].text));
  const beta = await constrained.beta.messages.parse({ ...who, output_format: betaZodOutputFormat(Pet) });
  assert.ok(Pet.safeParse(beta.parsed_output).success, JSON.stringify(beta.content));
});

test('anthropic: a tool that must be used has an input that its zod schema describes', async () => {
  const tool = betaZodTool({ name: 'adopt', description: 'Takes it home.', inputSchema: Pet, run: () => 'done' });
  const { name: called, description: told, input_schema: schema } = tool;
  for (const [strict, tool_choice] of [[false, { type: 'tool', name: 'adopt' }], [true, { type: 'any', disable_parallel_tool_use: true }]]) {
    const request = { ...who, tool_choice, tools: [{ name: called, description: told, input_schema: schema, strict }] };
    for (const message of [await constrained.messages.create(request), await constrained.messages.stream(request).finalMessage()]) {
      assert.equal(message.stop_reason, 'tool_use');
      const uses = message.content.filter(({ type }) => type === 'tool_use');
      assert.ok(uses.length > 0);
      for (const { input } of uses) assert.ok(Pet.safeParse(input).success, JSON.stringify(input));
    }
  }
});

test('anthropic: the embedded model makes a call that it must make', async () => {
  const embedded = await Server.start(...same);
  try {
    const { messages } = new Anthropic({ baseURL: embedded.url, apiKey: 'none', maxRetries: 0 });
    // The model knows nothing of tools, and would not end a string that may be of any length.
    const properties = { place: { enum: ['Oslo', 'Rome'] } };
    const ask = { model: 'default', max_tokens: 1500, temperature: 0, tool_choice: { type: 'any' },
      tools: [{ ...tools[0], input_schema: { ...input_schema, properties } }] };
    const asked = [{ role: 'user', content: 'What is 4728 + 915?' }];
    const message = await messages.create({ ...ask, messages: asked });
    assert.equal(message.stop_reason, 'tool_use');
    const uses = message.content.filter(({ type }) => type === 'tool_use');
    for (const { input } of uses) assert.match(input.place, /^(Oslo|Rome)$/);
    const results = uses.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: '5643' }));
    const again = await messages.create({ ...ask, messages: [...asked, { role: 'assistant', content: message.content },
      { role: 'user', content: results }] });
    assert.equal(again.stop_reason, 'tool_use');
  } finally {
    await embedded.stop();
  }
});

test('anthropic: refusals are errors of the kind that the client knows, and name the field', async () => {
  const refused = async (promise, type, kind, says) => {
    await assert.rejects(promise, (error) => {
      assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
      assert.equal(error.error.type, 'error');
      assert.equal(error.error.error.type, kind);
      assert.match(error.error.error.message, says);
      return true;
    });
  };
  const { AuthenticationError, BadRequestError, NotFoundError } = Anthropic;
  const { max_tokens, ...without } = body('x');
  assert.ok(max_tokens);
  await refused(clientOf('sk-wrong').messages.create(body('x')), AuthenticationError, 'authentication_error', /key/);
  await refused(ask('x', { model: 'claude-opus-4' }), NotFoundError, 'not_found_error', /claude-opus-4/);
  await refused(client.messages.create(without), BadRequestError, 'invalid_request_error', /max_tokens/);
  await refused(ask('x', { temperature: 1.5 }), BadRequestError, 'invalid_request_error', /temperature/);
  await refused(ask('x', { tools, tool_choice: { type: 'tool', name: 'other' } }),
    BadRequestError, 'invalid_request_error', /tool_choice/);
  await refused(ask('x', { output_config: { format: { type: 'json_schema', schema: { $dynamicRef: '#a' } } } }),
    BadRequestError, 'invalid_request_error', /\$dynamicRef/);
  await refused(ask('x', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }),
    BadRequestError, 'invalid_request_error', /web_search/);
  await refused(ask([{ type: 'image', source: { type: 'url', url: 'http://localhost/' } }]),
    BadRequestError, 'invalid_request_error', /image/);
});
