// SPDX-License-Identifier: Apache-2.0
// Protects what programs do with OpenAI's own client: chats that think and call tools, batched completions, refusals.
// What the model writes is decided by each test (lib/puppet.mjs), but where constraints are: there it is a real one that
// knows nothing of schemas (lib/tiny.mjs).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { deepseek } from './lib/families.mjs';
import { Puppet, fail, place, read, repeat, say, show, weather } from './lib/puppet.mjs';
import { Server, same } from './lib/server.mjs';
import { Tiny, tokensWith } from './lib/tiny.mjs';

const keys = { acme: 'sk-acme', narrow: 'sk-narrow' };
let server, client;
const clientOf = (apiKey, base = '/v1') => new OpenAI({ baseURL: server.url + base, apiKey, maxRetries: 0 });

before(async () => {
  server = await Puppet.start({
    names: 'puppet,marionette', stepMs: 2,
    accounts: [{ name: 'acme', key: keys.acme }, { name: 'narrow', key: keys.narrow, 'requests-max': 1 }],
  });
  client = clientOf(keys.acme);
});

after(() => server?.stop());

const { calls } = deepseek;
const user = (content) => [{ role: 'user', content }];
const chat = (content, more = {}) =>
  client.chat.completions.create({ model: 'puppet', messages: user(content), ...more });
const tools = [{ type: 'function', function: weather }];
const thinking = { thinking: { type: 'enabled' } };

// A stream's deltas joined, and the order in which their parts came.
async function collect(stream) {
  const seen = { content: '', reasoning: '', calls: [], order: [], reason: null };
  const part = (name) => { if (seen.order.at(-1) !== name) seen.order.push(name); };
  for await (const { choices: [choice] } of stream) {
    if (!choice) continue;
    const { content, reasoning_content: reasoning, tool_calls: deltas } = choice.delta;
    if (reasoning) part('reasoning');
    if (content) part('content');
    seen.reasoning += reasoning ?? '';
    seen.content += content ?? '';
    for (const { index, id, type, function: { name, arguments: args } } of deltas ?? []) {
      part('calls');
      if (id) {
        assert.equal(index, seen.calls.length);
        assert.equal(type, 'function');
        seen.calls.push({ id, name, arguments: '' });
      }
      assert.equal(index, seen.calls.length - 1);
      seen.calls[index].arguments += args;
    }
    seen.reason = choice.finish_reason ?? seen.reason;
  }
  return seen;
}

// A custom tool takes text; the client's helpers of streams know functions alone.
const patch = '*** Begin "Patch"\n+\ta\\b 🙂\n';
const grammar = { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } };
const edit = { type: 'custom', custom: { name: 'edit', description: 'Edits.', format: grammar } };

test('openai: a custom tool is called with text, and its result goes back', async () => {
  const asked = say(`So.</think>Now.${calls([['edit', { input: patch }], ['weather', { place }]])}`);
  const more = { ...thinking, tools: [...tools, edit] };
  const { data: { choices: [{ message, finish_reason }] }, response } = await chat(asked, more).withResponse();
  assert.equal(finish_reason, 'tool_calls');
  const [custom, call] = message.tool_calls;
  assert.deepEqual([custom.type, custom.custom], ['custom', { name: 'edit', input: patch }]);
  assert.deepEqual([call.type, JSON.parse(call.function.arguments).place], ['function', place]);
  assert.match(response.headers.get('x-fathom-warning'), /tools\[1\]\.custom\.format is shown to the model, not enforced/);
  const joined = [];
  const order = [];
  for await (const { choices: [choice] } of await chat(asked, { ...more, stream: true }))
    for (const { index, id, type, function: { arguments: args } = {}, custom: { name, input } = {} } of choice?.delta.tool_calls ?? []) {
      joined[index] ??= { type, name, text: '' };
      joined[index].text += args ?? input;
      if (order.at(-1) !== index) order.push(index);
      assert.equal(id !== undefined, type !== undefined);
    }
  assert.deepEqual(order, [0, 1]);
  assert.deepEqual([joined[0], JSON.parse(joined[1].text).place], [{ type: 'custom', name: 'edit', text: patch }, place]);
  const next = await client.chat.completions.create({
    model: 'puppet', tools: more.tools, messages: [...user('Edit.'), message,
      { role: 'tool', tool_call_id: custom.id, content: 'Done.' }, { role: 'tool', tool_call_id: call.id, content: 'rain' },
      ...user(show)],
  });
  const prompt = read(next.choices[0].message.content);
  assert.ok(prompt.includes(`edit<｜tool▁sep｜>${JSON.stringify({ input: patch })}`), prompt);
  assert.match(prompt, /<｜tool▁output▁begin｜>Done\.</);
  assert.match(prompt, /The input follows this grammar \(lark\):\\nstart/);
});

// ---- chats ----

test('openai: a chat has content, a reason and usage', async () => {
  const answer = await chat(say('Hello, “world” 🙂\n'));
  assert.equal(answer.choices[0].message.content, 'Hello, “world” 🙂\n');
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.equal(answer.choices[0].message.tool_calls, undefined);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.match(answer._request_id, /^[\x21-\x7e]+$/);
});

test('openai: the request id that a client sends comes back', async () => {
  const { response } = await client.chat.completions.create({ model: 'puppet', messages: user('Hello') },
    { headers: { 'X-Request-Id': 'of-mine-7' } }).withResponse();
  assert.equal(response.headers.get('x-request-id'), 'of-mine-7');
});

test('openai: a stream says what a whole answer says', async () => {
  const text = 'One, two,\n\n  three: ünïcödé 🙂🙃.';
  const seen = await collect(await chat(say(text), { stream: true }));
  assert.deepEqual([seen.content, seen.reasoning, seen.reason], [text, '', 'stop']);
  const stream = client.chat.completions.stream({ model: 'puppet', messages: user(say(text)) });
  assert.equal(await stream.finalContent(), text);
});

test('openai: a model reads every turn of the conversation', async () => {
  const answer = await client.chat.completions.create({
    model: 'puppet',
    messages: [{ role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'first' }, { type: 'text', text: 'second' }] },
      { role: 'assistant', content: 'Aye.' }, { role: 'user', content: `third${show}` }],
  });
  assert.match(read(answer.choices[0].message.content),
    /Be brief\.\s+<｜User｜>first\s?second<｜Assistant｜><\/think>Aye\.<｜end▁of▁sentence｜><｜User｜>third/);
});

test('openai: an answer that is aborted in mid-stream gives its pages back', async () => {
  const stream = await chat(repeat('again '), { stream: true });
  let pieces = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.choices);
    if (++pieces === 5) stream.controller.abort();
  }
  assert.ok(pieces >= 5);
  assert.equal((await server.quiet())['fathom_kv_pages{state="held"}'], 0);
});

test('openai: an engine that fails in mid-answer says so, and the next answer comes', async () => {
  const seen = await collect(await chat(fail('so far '), { stream: true }));
  assert.deepEqual([seen.content, seen.reason], ['so far ', 'insufficient_system_resource']);
  assert.equal((await chat(say('well'))).choices[0].message.content, 'well');
});

test('openai: a whole answer that takes long is kept alive by blank lines', async () => {
  const sluggish = await Puppet.start({ stepMs: 2000 });
  try {
    const patient = new OpenAI({ baseURL: `${sluggish.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const request = { model: 'puppet', messages: user(say('a b c')) };
    const [answer, raw] = await Promise.all([patient.chat.completions.create(request),
      sluggish.post('/v1/chat/completions', request).then((response) => response.text())]);
    assert.equal(answer.choices[0].message.content, 'a b c');
    assert.match(raw, /^\n+\{.*\}\n?$/);
  } finally {
    await sluggish.stop();
  }
});

test('openai: a stream reports the progress of its prompt to who asks for it', async () => {
  const reader = await Puppet.start({ stepMs: 700 });
  try {
    const patient = new OpenAI({ baseURL: `${reader.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const progress = [];
    let answer = '';
    for await (const { choices: [choice], prompt_progress: part } of await patient.chat.completions.create(
      { model: 'puppet', messages: user('one and two '.repeat(3000) + say('Read.')), stream: true, return_progress: true })) {
      if (part) progress.push(part);
      answer += choice?.delta?.content ?? '';
    }
    assert.equal(answer, 'Read.');
    assert.ok(progress.length > 0 && progress.every(({ total, cache, processed, time_ms: ms }) =>
      processed > 0 && processed < total && cache === 0 && ms >= 700), JSON.stringify(progress));
  } finally {
    await reader.stop();
  }
});

// ---- thinking ----

test('openai: thoughts come as reasoning_content, whole and in deltas before the answer', async () => {
  const ask = [say('I ponder.\n</think>\n\nForty-two.'), thinking];
  const { choices: [{ message }], usage } = await chat(...ask);
  assert.deepEqual([message.reasoning_content.trim(), message.content.trim()], ['I ponder.', 'Forty-two.']);
  assert.ok(usage.completion_tokens_details.reasoning_tokens > 0);
  const seen = await collect(await chat(ask[0], { ...thinking, stream: true }));
  assert.deepEqual([seen.reasoning, seen.content], [message.reasoning_content, message.content]);
  assert.deepEqual(seen.order, ['reasoning', 'content']);
});

test('openai: every way to switch thinking on or off works', async () => {
  const tail = async (more) => (await chat(show, more)).choices[0].message;
  const asked = [
    [thinking, true], [{ thinking: { type: 'disabled' } }, false], [{}, false],
    [{ reasoning_effort: 'high' }, true], [{ reasoning_effort: 'none' }, false],
    [{ chat_template_kwargs: { thinking: true } }, true], [{ chat_template_kwargs: { enable_thinking: true } }, true],
    [{ enable_thinking: true }, true], [{ model: 'deepseek-reasoner' }, true], [{ model: 'deepseek-chat' }, false],
  ];
  for (const [more, thinks] of asked) {
    const message = await tail(more);
    const prompt = read(message.content || message.reasoning_content);
    assert.ok(prompt.endsWith(thinks ? '<think>' : '</think>'), `${JSON.stringify(more)}: ${prompt}`);
  }
});

// ---- tools ----

test('openai: a call has a name, arguments and an id of its own', async () => {
  const { choices: [{ message, finish_reason }] } = await chat(say(calls([['weather', { place, days: 2 }]])), { tools });
  assert.equal(finish_reason, 'tool_calls');
  assert.equal(message.content, null);
  const [call] = message.tool_calls;
  assert.deepEqual([call.type, call.function.name, JSON.parse(call.function.arguments)],
    ['function', 'weather', { place, days: 2 }]);
  const again = await chat(say(calls([['weather', { place }]])), { tools });
  assert.notEqual(again.choices[0].message.tool_calls[0].id, call.id);
});

test('openai: thoughts, words and parallel calls stream in their order', async () => {
  const text = `Two places.</think>Let me look.${calls([['weather', { place: 'Rome' }], ['weather', { place }]])}`;
  const whole = await chat(say(text), { tools, ...thinking });
  const seen = await collect(await chat(say(text), { tools, ...thinking, stream: true }));
  assert.deepEqual(seen.order, ['reasoning', 'content', 'calls']);
  assert.deepEqual([seen.reasoning, seen.content, seen.reason], ['Two places.', 'Let me look.', 'tool_calls']);
  assert.deepEqual(seen.calls.map((call) => [call.name, JSON.parse(call.arguments)]),
    [['weather', { place: 'Rome' }], ['weather', { place }]]);
  assert.notEqual(seen.calls[0].id, seen.calls[1].id);
  const { message, finish_reason } = whole.choices[0];
  assert.deepEqual([message.reasoning_content, message.content, finish_reason],
    [seen.reasoning, seen.content, seen.reason]);
  assert.deepEqual(message.tool_calls.map((call) => [call.function.name, call.function.arguments]),
    seen.calls.map((call) => [call.name, call.arguments]));
});

for (const stream of [false, true]) {
  test(`openai: runTools calls two functions and answers with their results${stream ? ', streamed' : ''}`, async () => {
    const asked = [];
    const runner = client.chat.completions.runTools({
      model: 'puppet', stream,
      messages: user(say(`Let me look.${calls([['weather', { place }], ['weather', { place: 'Oslo' }]])}`)),
      tools: [{
        type: 'function',
        function: {
          ...weather, parse: JSON.parse,
          function: (args) => {
            asked.push(args.place);
            return `rain, number ${asked.length}${asked.length === 2 ? say('Rain in both.') : ''}`;
          },
        },
      }],
    });
    assert.equal(await runner.finalContent(), 'Rain in both.');
    assert.deepEqual(asked, [place, 'Oslo']);
    const [, assistant, ...results] = runner.messages;
    assert.equal(assistant.content, 'Let me look.');
    assert.deepEqual(results.slice(0, 2).map((result) => result.tool_call_id),
      assistant.tool_calls.map((call) => call.id));
  });
}

test('openai: a model reads its earlier calls and their results', async () => {
  const { choices: [{ message }] } = await chat(say(calls([['weather', { place: 'Rome' }]])), { tools });
  const { choices: [{ message: { content } }] } = await client.chat.completions.create({
    model: 'puppet', tools,
    messages: [...user('How is Rome?'), message,
      { role: 'tool', tool_call_id: message.tool_calls[0].id, content: `hot${show}` }],
  });
  assert.match(read(content), /"name": ?"weather"/);
  assert.match(read(content), /<｜tool▁call▁begin｜>weather<｜tool▁sep｜>\{"place": ?"Rome"\}<｜tool▁call▁end｜>/);
  assert.match(read(content), /<｜tool▁output▁begin｜>hot/);
});

test('openai: what looks like a call is content where no tools were given, or none may be called', async () => {
  const text = 'Look: <tool_call>';
  assert.equal((await chat(say(text))).choices[0].message.content, text);
  const { choices: [{ message, finish_reason }] } = await chat(show, { tools, tool_choice: 'none' });
  assert.doesNotMatch(read(message.content), /weather/);
  assert.equal(finish_reason, 'stop');
});

test('openai: one call only, where calls are not to be parallel', async () => {
  const text = calls([['weather', { place: 'Rome' }], ['weather', { place: 'Oslo' }]]);
  const { choices: [{ message, finish_reason }] } = await chat(say(text), { tools, parallel_tool_calls: false });
  assert.equal(message.tool_calls.length, 1);
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { place: 'Rome' });
  assert.equal(finish_reason, 'tool_calls');
});

test('openai: 64 chats at once that call tools get each its own', async () => {
  const one = async (i) => {
    const places = [`Bergen ${i}`, `Oslo ${i}`];
    const text = `I, ${i}, must.</think>Let ${i} look.${calls(places.map((where) => ['weather', { place: where }]))}`;
    const seen = await collect(await chat(say(text), { tools, ...thinking, stream: true }));
    assert.deepEqual([seen.reasoning, seen.content, seen.reason], [`I, ${i}, must.`, `Let ${i} look.`, 'tool_calls']);
    assert.deepEqual(seen.calls.map((call) => JSON.parse(call.arguments).place), places);
    return seen.calls.map(({ id }) => id);
  };
  const ids = (await Promise.all(Array.from({ length: 64 }, (_, i) => one(i)))).flat();
  assert.equal(new Set(ids).size, 128);
  assert.equal((await server.quiet())['fathom_kv_pages{state="held"}'], 0);
});

test('openai: an answer that is cut in a call leaves the arguments so far', async () => {
  const text = calls([['weather', { place: 'very '.repeat(50) }]]);
  const { choices: [{ message, finish_reason }] } = await chat(say(text), { tools, max_tokens: 30 });
  assert.equal(finish_reason, 'length');
  assert.equal(message.tool_calls[0].function.name, 'weather');
  assert.match(message.tool_calls[0].function.arguments, /^\{"place":"(very )+/);
});

// ---- completions ----

test('openai: several prompts are one request, each with its answers', async () => {
  const prompt = ['one', 'two', 'three'].map(say);
  const { choices, usage } = await client.completions.create({ model: 'puppet', prompt, n: 2 });
  assert.deepEqual(choices.map(({ index, text }) => [index, text]),
    [[0, 'one'], [1, 'one'], [2, 'two'], [3, 'two'], [4, 'three'], [5, 'three']]);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  const texts = Array(6).fill('');
  for await (const chunk of await client.completions.create({ model: 'puppet', prompt, n: 2, stream: true }))
    for (const { index, text } of chunk.choices) texts[index] += text;
  assert.deepEqual(texts, choices.map(({ text }) => text));
});

test('openai: several prompts of token ids are one request', async () => {
  const idsOf = async (prompt) => (await (await server.post('/tokenize', { prompt }, {
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${keys.acme}` },
  })).json()).tokens;
  const prompt = await Promise.all(['one', 'two'].map((text) => idsOf(say(text))));
  const { choices, usage } = await client.completions.create({ model: 'puppet', prompt });
  assert.deepEqual(choices.map(({ text }) => text), ['one', 'two']);
  assert.equal(usage.prompt_tokens, prompt[0].length + prompt[1].length);
});

test('openai: a chat goes on where its last message ends (DeepSeek: prefix)', async () => {
  const beta = clientOf(keys.acme, '/beta');
  const ask = (content) => beta.chat.completions.create({
    model: 'puppet', messages: [...user(content), { role: 'assistant', content: '```python\n', prefix: true }],
    stop: ['```'],
  });
  assert.equal((await ask(say('print(1)\n```'))).choices[0].message.content, 'print(1)\n');
  assert.match(read((await ask(show)).choices[0].message.content), /<｜Assistant｜><\/think>$/);
});

// ---- constrained output ----

let tiny, constrained;
before(async () => {
  tiny = await Tiny.start();
  constrained = new OpenAI({ baseURL: `${tiny.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(() => tiny?.stop());

test('openai: the embedded model makes a call that it must make', async () => {
  const embedded = await Server.start(...same);
  try {
    const { chat: { completions } } = new OpenAI({ baseURL: `${embedded.url}/v1`, apiKey: 'none', maxRetries: 0 });
    // The model knows nothing of tools, and would not end a string that may be of any length.
    const parameters = { type: 'object', properties: { place: { enum: ['Oslo', 'Rome'] } }, required: ['place'], additionalProperties: false };
    const ask = { model: 'default', temperature: 0, max_tokens: 1500, tools: [{ type: 'function', function: { ...weather, parameters } }],
      tool_choice: { type: 'function', function: { name: weather.name } } };
    const fits = (args) => assert.match(JSON.parse(args).place, /^(Oslo|Rome)$/);
    const asked = user('What is 4728 + 915?');
    const { choices: [{ message, finish_reason }] } = await completions.create({ ...ask, messages: asked });
    assert.equal(finish_reason, 'tool_calls');
    const [call] = message.tool_calls;
    assert.equal(call.function.name, weather.name);
    fits(call.function.arguments);
    // Its result goes back, and another call is made.
    const messages = [...asked, message, { role: 'tool', tool_call_id: call.id, content: '5643' }];
    const seen = await collect(await completions.create({ ...ask, messages, tool_choice: 'required', stream: true }));
    assert.equal(seen.reason, 'tool_calls');
    for (const { arguments: args } of seen.calls) fits(args);
  } finally {
    await embedded.stop();
  }
});

const hot = { model: 'default', messages: user('Who?'), temperature: 1.5, max_tokens: 1500 };
const Person = z.object({
  name: z.string().max(12), born: z.number().int().min(1900).max(2100), mood: z.enum(['merry', 'grim']),
  pets: z.array(z.object({ kind: z.enum(['otter', 'fox']), tame: z.boolean() })).max(2), nick: z.string().max(5).nullable(),
});
const Trip = z.object({ place: z.enum(['Oslo', 'Rome']), days: z.number().int().min(1).max(7) });

test('openai: chat.completions.parse brings what a zod schema describes', async () => {
  for (let seed = 0; seed < 4; seed++) {
    const { choices: [{ message, finish_reason }] } = await constrained.chat.completions.parse(
      { ...hot, seed, response_format: zodResponseFormat(Person, 'person') });
    assert.equal(finish_reason, 'stop');
    assert.deepEqual(Person.parse(message.parsed), JSON.parse(message.content));
  }
});

test('openai: a stream helper parses what a zod schema describes', async () => {
  const stream = constrained.chat.completions.stream({ ...hot, seed: 1, response_format: zodResponseFormat(Person, 'person') });
  const { choices: [{ message }] } = await stream.finalChatCompletion();
  assert.ok(Person.safeParse(message.parsed).success, message.content);
});

for (const streamed of [false, true]) {
  test(`openai: runTools calls a strict function that is named, with what its zod schema describes${streamed ? ', streamed' : ''}`, async () => {
    const asked = [];
    const tool = zodFunction({ name: 'travel', parameters: Trip, function: (trip) => { asked.push(trip); return 'done'; } });
    assert.equal(tool.function.strict, true);
    await constrained.chat.completions.runTools({ ...hot, seed: 2, stream: streamed, tools: [tool],
      tool_choice: { type: 'function', function: { name: 'travel' } } }).done();
    assert.equal(asked.length, 1);
    assert.ok(Trip.safeParse(asked[0]).success, JSON.stringify(asked));
  });
}

test('openai: parse reads the arguments of strict functions that the model chose to call', async () => {
  const [begin] = tokensWith('<｜tool▁call▁begin｜>');
  const tools = [zodFunction({ name: 'travel', parameters: Trip }), zodFunction({ name: 'meet', parameters: Person })];
  for (const more of [{ tool_choice: 'auto', logit_bias: { [begin]: 100 } }, { tool_choice: 'required' }]) {
    const { choices: [{ message, finish_reason }] } = await constrained.chat.completions.parse({ ...hot, seed: 3, tools, parallel_tool_calls: false, ...more });
    assert.equal(finish_reason, 'tool_calls');
    for (const { function: { name, parsed_arguments: args } } of message.tool_calls)
      assert.ok({ travel: Trip, meet: Person }[name].safeParse(args).success, `${name}: ${JSON.stringify(args)}`);
  }
});

// ---- the rest ----

test('openai: every name of the model is in the list', async () => {
  const models = await client.models.list();
  assert.deepEqual(models.data.map(({ id }) => id).sort(), ['deepseek-chat', 'deepseek-reasoner', 'marionette', 'puppet']);
  assert.equal((await client.models.retrieve('deepseek-chat')).id, 'deepseek-chat');
});

test('openai: unknown fields are named in a header, and asked-for ones refused', async () => {
  const { data, response } = await client.chat.completions.create(
    { model: 'puppet', messages: user(say('yes')), wobble: 3, user: 'me', metadata: {} }).withResponse();
  assert.equal(data.choices[0].message.content, 'yes');
  assert.equal(response.headers.get('x-fathom-warning'), 'unknown fields: wobble');
});

// The client's error class, the status, and something the message must say.
async function refused(promise, type, status, says) {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.status, status);
    assert.match(error.message, says);
    return true;
  });
}

test('openai: refusals are errors of the kind that the client knows, and name the field', async () => {
  const { AuthenticationError, BadRequestError, NotFoundError } = OpenAI;
  await refused(clientOf('sk-wrong').models.list(), AuthenticationError, 401, /key/);
  await refused(chat('x', { model: 'gpt-4' }), NotFoundError, 404, /gpt-4/);
  await refused(chat('x', { tools, tool_choice: { type: 'function', function: { name: 'other' } } }),
    BadRequestError, 400, /tool_choice/);
  await refused(chat('x', { tools: [{ type: 'function', function: { ...weather, strict: true, parameters: { type: 'object', $dynamicRef: '#a' } } }] }),
    BadRequestError, 400, /tools.*\$dynamicRef/);
  await refused(chat('x', { tools: [{ type: 'function', function: { name: 'not a name' } }] }),
    BadRequestError, 400, /tools\[0\]/);
  await refused(chat('x', { functions: [weather] }), BadRequestError, 400, /functions/);
  await refused(chat('x', { response_format: { type: 'structural_tag' } }), BadRequestError, 400, /response_format/);
  await refused(chat('x', { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { $dynamicRef: '#a' } } } }),
    BadRequestError, 400, /\$dynamicRef/);
  await refused(client.chat.completions.create({
    model: 'puppet', messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }],
  }), BadRequestError, 400, /messages\[0\]\.content/);
  await refused(client.completions.create({ model: 'puppet', prompt: ['a', [1]] }), BadRequestError, 400, /prompt/);
});

test('openai: one request too many gets the time for a retry', async () => {
  const narrow = clientOf(keys.narrow);
  const ask = () => narrow.chat.completions.create({ model: 'puppet', messages: user(repeat('x ')), stream: true })
    .withResponse();
  const { data: stream, response } = await ask();
  assert.equal(response.headers.get('x-ratelimit-limit-requests'), '1');
  assert.equal(response.headers.get('x-ratelimit-remaining-requests'), '0');
  await assert.rejects(ask(), (error) => {
    assert.ok(error instanceof OpenAI.RateLimitError);
    assert.ok(Number(error.headers.get('retry-after')) >= 1);
    return true;
  });
  stream.controller.abort();
  for await (const chunk of stream) assert.ok(chunk);
  await server.quiet();
});
