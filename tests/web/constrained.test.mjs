// SPDX-License-Identifier: Apache-2.0
// Protects what a request may ask for beside a constraint: every way to write one, several answers, seeds, penalties,
// biases, thinking, streams, log probabilities, tools; and that what cannot be held is refused by name, in time.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { emitted } from './lib/emitted.mjs';
import { judgeOf } from './lib/judge.mjs';
import { Tiny, tokensWith } from './lib/tiny.mjs';

let server;
before(async () => { server = await Tiny.start('--max-context', '2048'); });
after(() => server?.stop());

const person = {
  type: 'object', additionalProperties: false, required: ['name', 'age', 'tags'],
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 10 }, age: { type: 'integer', minimum: 0, maximum: 130 },
    tags: { type: 'array', items: { enum: ['red', 'green', 'blue'] }, maxItems: 3 },
  },
};
const format = (schema) => ({ type: 'json_schema', json_schema: { name: 'answer', schema } });
const hot = { temperature: 1.5, seed: 5, max_tokens: 900 };
const question = [{ role: 'user', content: 'What is 4728 + 915?' }];

async function post(path, body) {
  const response = await server.post(path, body);
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer;
}

const chat = (more) => post('/v1/chat/completions', { messages: question, ...hot, ...more });
const complete = (more) => post('/v1/completions', { prompt: 'Write JSON: ', ...hot, ...more });

// An answer ended by itself and is JSON of the schema.
function fulfils(schema, text, reason = 'stop') {
  assert.equal(reason, 'stop', text);
  assert.equal(judgeOf(schema)(text), null, text);
}

async function refused(path, body, status, ...says) {
  const response = await server.post(path, { ...path.includes('chat') ? { messages: question } : { prompt: 'x' }, max_tokens: 50, ...body });
  const { error } = await response.json();
  assert.equal(response.status, status, JSON.stringify(error ?? body));
  for (const words of says) assert.ok(error.message.includes(words), `${words}: ${error.message}`);
  return error;
}

async function events(path, body) {
  const response = await server.post(path, { ...body, stream: true });
  assert.equal(response.status, 200);
  return (await response.text()).split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
}

// ---- every way to ask ----

test('a schema is held by each name that an API has for it', async () => {
  for (const ask of [
    { response_format: format(person) }, { response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema: person } } },
    { guided_json: person }, { guided_json: JSON.stringify(person) }, { structured_outputs: { json: person } }, { json_schema: person },
    { json_schema: JSON.stringify(person) },
  ]) {
    const { choices: [{ message, finish_reason }] } = await chat(ask);
    fulfils(person, message.content, finish_reason);
    const { choices: [{ text, finish_reason: reason }] } = await complete(ask);
    fulfils(person, text, reason);
  }
});

// A hot model finds no end of a free text or of an open object: what may end one is biased, and some are cut all the same.
const ending = Object.fromEntries(tokensWith('"').concat(tokensWith(']'), tokensWith('}')).slice(0, 290).map((id) => [id, 12]));

test('schemas that libraries write of types are served and fulfilled', async () => {
  const ended = await Promise.all(emitted.map(async ([name, schema]) => {
    const { choices: [{ message, finish_reason }] } = await chat({ response_format: format(schema), logit_bias: ending });
    assert.match(finish_reason, /^(stop|length)$/);
    if (finish_reason === 'stop') assert.equal(judgeOf(schema)(message.content), null, `${name}: ${message.content}`);
    return finish_reason === 'stop';
  }));
  const count = ended.filter(Boolean).length;
  assert.ok(count > ended.length / 4, `${count} of ${ended.length}`);
});

test('a JSON object is asked for without a schema', async () => {
  // Free strings have no end that a hot model finds.
  for (const ask of [{ response_format: { type: 'json_object' } }, { structured_outputs: { json_object: true } }]) {
    const { choices: [{ text, finish_reason }] } = await complete({ ...ask, max_tokens: 1000 });
    assert.match(text, /^\s?\{/);
    if (finish_reason === 'stop') fulfils({ type: 'object' }, text);
  }
});

test('a regular expression is held by each name that an API has for it', async () => {
  const pattern = '[a-z]{3,8}@(home|work)\\.(org|net)';
  for (const ask of [{ guided_regex: pattern }, { structured_outputs: { regex: pattern } }, { regex: pattern }]) {
    const { choices: [{ text, finish_reason }] } = await complete(ask);
    assert.equal(finish_reason, 'stop');
    assert.match(text, new RegExp(`^${pattern}$`));
  }
});

test('a choice is one of its texts', async () => {
  const texts = ['positive', 'negative', 'neither "this" nor that'];
  const found = new Set();
  for (const ask of [{ guided_choice: texts }, { structured_outputs: { choice: texts } }]) {
    const { choices } = await complete({ ...ask, n: 8 });
    for (const { text, finish_reason } of choices) {
      assert.equal(finish_reason, 'stop');
      assert.ok(texts.includes(text), text);
      found.add(text);
    }
  }
  assert.ok(found.size > 1);
});

test('a GBNF grammar is held by each name that an API has for it', async () => {
  const grammar = `# sums
root ::= term (" + " term){1,4} " = " number
term ::= number | "(" number " - " number ")"
number ::= [1-9] [0-9]{0,2}`;
  for (const ask of [{ guided_grammar: grammar }, { structured_outputs: { grammar } }, { grammar }, { ebnf: grammar }]) {
    const { choices: [{ text, finish_reason }] } = await complete(ask);
    assert.equal(finish_reason, 'stop');
    const term = '(?:[1-9]\\d{0,2}|\\([1-9]\\d{0,2} - [1-9]\\d{0,2}\\))';
    assert.match(text, new RegExp(`^${term}(?: \\+ ${term}){1,4} = [1-9]\\d{0,2}$`));
  }
});

test('with strict_order keys come as the schema lists them', async () => {
  const properties = Object.fromEntries(['zeta', 'alpha', 'mid', 'beta'].map((name) => [name, { type: 'boolean' }]));
  const schema = { type: 'object', properties, required: ['alpha', 'beta', 'mid', 'zeta'], additionalProperties: false };
  for (let seed = 0; seed < 8; seed++) {
    const { choices: [{ text, finish_reason }] } = await complete({ response_format: format(schema), strict_order: true, seed });
    fulfils(schema, text, finish_reason);
    assert.deepEqual(Object.keys(JSON.parse(text)), Object.keys(properties));
  }
});

// ---- beside everything else that a request may ask for ----

test('n answers under a constraint are each their own draw, and the same again', async () => {
  const ask = { response_format: format(person), n: 4 };
  const { choices } = await complete(ask);
  assert.equal(choices.length, 4);
  for (const { text, finish_reason } of choices) fulfils(person, text, finish_reason);
  assert.ok(new Set(choices.map(({ text }) => text)).size > 1);
  assert.deepEqual((await complete(ask)).choices, choices);
  assert.deepEqual((await complete({ ...ask, n: 1 })).choices[0], choices[0]);
});

test('several prompts under one constraint have each an answer of it', async () => {
  const { choices } = await complete({ prompt: ['One: ', 'Two: ', 'Three: '], n: 2, response_format: format(person) });
  assert.equal(choices.length, 6);
  for (const { text, finish_reason } of choices) fulfils(person, text, finish_reason);
});

test('a constrained answer is the same alone and among others', async () => {
  const ask = { response_format: format(person), n: 2 };
  const alone = await complete(ask);
  const crowd = Array.from({ length: 20 }, (_, i) => i % 2 ? complete({ seed: i, max_tokens: 60 }) :
    complete({ response_format: format({ ...person, title: `of ${i}` }), seed: i }));
  const [among] = await Promise.all([complete(ask), ...crowd]);
  assert.deepEqual(among.choices, alone.choices);
});

test('penalties, and narrow or wide draws, lead nowhere that the schema does not', async () => {
  for (const ask of [{ frequency_penalty: 2, presence_penalty: 2 }, { repetition_penalty: 10 }, { repetition_penalty: 0.01 },
    { frequency_penalty: -2 }, { top_k: 1 }, { top_p: 0.05 }, { min_p: 1 }, { temperature: 0 }, { temperature: 2 }]) {
    const { choices: [{ text, finish_reason }] } = await complete({ ...ask, response_format: format(person) });
    fulfils(person, text, finish_reason);
  }
});

test('biases choose among what the schema lets through, and win nothing else', async () => {
  const banned = Object.fromEntries(tokensWith('}').map((id) => [id, -100]));
  const wanted = Object.fromEntries(tokensWith('lan').slice(0, 20).map((id) => [id, 100]));
  for (const logit_bias of [banned, wanted, { 1: 100 }, { 1: -100 }]) {
    const { choices: [{ text, finish_reason }] } = await complete({ logit_bias, response_format: format(person) });
    fulfils(person, text, finish_reason);
  }
  const { choices } = await complete({ guided_choice: ['yes', 'no'], n: 8,
    logit_bias: Object.fromEntries(tokensWith('y').slice(0, 280).map((id) => [id, -100])) });
  for (const { text } of choices) assert.equal(text, 'no');
});

test('min_tokens yields where the schema ends', async () => {
  const { choices: [{ text, finish_reason }], usage } = await complete({ response_format: format({ enum: [true, false] }), min_tokens: 40 });
  fulfils({ enum: [true, false] }, text, finish_reason);
  assert.ok(usage.completion_tokens < 40);
  // Where it may go on, it does.
  const letters = await complete({ guided_regex: '[a-z ]+', min_tokens: 40, max_tokens: 100 });
  assert.ok(letters.usage.completion_tokens >= 40);
});

test('stop strings do not cut a value, and cut thinking', async () => {
  const schema = { const: { note: 'one STOP two } three' } };
  for (const stop of ['STOP', ['}', 'two'], '"']) {
    const { choices: [{ text, finish_reason }] } = await complete({ response_format: format(schema), stop });
    fulfils(schema, text, finish_reason);
  }
  const ask = { response_format: format(schema), thinking: { type: 'enabled' }, temperature: 0 };
  const { choices: [{ message }] } = await chat(ask);
  const word = message.reasoning_content.trim().split(/\s+/)[1];
  const { choices: [cut] } = await chat({ ...ask, stop: word });
  assert.equal(cut.finish_reason, 'stop');
  assert.ok(!(cut.message.reasoning_content ?? '').includes(word));
});

test('an answer that is cut by max_tokens is the beginning of a whole one', async () => {
  const ask = { response_format: format(person) };
  const { choices: [{ text: whole }], usage } = await complete(ask);
  for (let max_tokens = 1; max_tokens < usage.completion_tokens; max_tokens += 3) {
    const { choices: [{ text, finish_reason }] } = await complete({ ...ask, max_tokens });
    assert.equal(finish_reason, 'length');
    assert.ok(whole.startsWith(text), `${text} of ${whole}`);
  }
});

test('thinking is free, and what comes behind it is JSON of the schema', async () => {
  const schema = { type: 'object', properties: { sum: { type: 'integer', minimum: 0, maximum: 99999 } }, required: ['sum'], additionalProperties: false };
  for (const seed of [1, 2, 3]) {
    const ask = { response_format: format(schema), thinking: { type: 'enabled' }, temperature: 0.6, seed };
    const { choices: [{ message, finish_reason }], usage } = await chat(ask);
    assert.ok(message.reasoning_content.length > 20, message.reasoning_content);
    assert.doesNotMatch(message.reasoning_content, /^\s*\{/);
    assert.ok(usage.completion_tokens_details.reasoning_tokens > 10);
    fulfils(schema, message.content, finish_reason);
    const told = { content: '', reasoning: '' };
    for (const { choices: [choice] } of await events('/v1/chat/completions', { messages: question, ...hot, ...ask })) {
      told.content += choice?.delta.content ?? '';
      told.reasoning += choice?.delta.reasoning_content ?? '';
    }
    assert.deepEqual(told, { content: message.content, reasoning: message.reasoning_content });
  }
});

test('the deltas of a stream are the whole answer', async () => {
  const ask = { response_format: format(person), n: 3 };
  const { choices } = await complete(ask);
  const texts = ['', '', ''], reasons = [];
  for (const { choices: [choice] } of await events('/v1/completions', { prompt: 'Write JSON: ', ...hot, ...ask })) {
    if (!choice) continue;
    texts[choice.index] += choice.text;
    reasons[choice.index] = choice.finish_reason ?? reasons[choice.index];
  }
  assert.deepEqual(texts, choices.map(({ text }) => text));
  assert.deepEqual(reasons, ['stop', 'stop', 'stop']);
});

test('log probabilities change no answer, and are told of each token', async () => {
  const ask = { response_format: format(person), return_token_ids: true };
  const plain = await complete(ask);
  const { choices: [{ text, logprobs, token_ids }], usage } = await complete({ ...ask, logprobs: 3 });
  assert.equal(text, plain.choices[0].text);
  assert.deepEqual(token_ids, plain.choices[0].token_ids);
  assert.equal(usage.completion_tokens, plain.usage.completion_tokens);
  assert.equal(logprobs.tokens.length, usage.completion_tokens);
  assert.equal(logprobs.token_logprobs.length, usage.completion_tokens);
  for (const value of logprobs.token_logprobs) assert.ok(value <= 0);
  const told = await chat({ response_format: format(person), logprobs: true, top_logprobs: 2 });
  const { message, logprobs: { content } } = told.choices[0];
  fulfils(person, message.content);
  assert.equal(content.length, told.usage.completion_tokens);
});

// ---- what is refused ----

test('what would end an answer elsewhere is refused together with a constraint', async () => {
  for (const path of ['/v1/chat/completions', '/v1/completions'])
    for (const [name, value] of [['stop_token_ids', [5]], ['ignore_eos', true]])
      await refused(path, { response_format: format(person), [name]: value }, 400, name, 'response_format');
});

test('a schema that cannot be held is refused by its keyword, whoever asks', async () => {
  for (const [keyword, schema] of [
    ['$dynamicRef', { $dynamicRef: '#x' }], ['$ref', { $ref: 'https://example.org/schema.json' }],
    ['pattern', { type: 'string', pattern: '(?<=a)b' }], ['pattern', { type: 'string', pattern: '(' }],
    ['type', { type: 'thing' }], ['minLength', { type: 'string', minLength: 'a' }],
  ]) {
    const { param } = await refused('/v1/chat/completions', { response_format: format(schema) }, 400, keyword);
    assert.equal(param, 'response_format');
    await refused('/v1/completions', { guided_json: schema }, 400, keyword);
  }
  await refused('/v1/completions', { guided_regex: '(a' }, 400, 'guided_regex');
  await refused('/v1/completions', { grammar: 'root ::= root "a" | "b"' }, 400, 'root');
  await refused('/v1/completions', { grammar: 'root ::= "a"\nleaf ::= (' }, 400, '2');
  await refused('/v1/completions', { guided_choice: [] }, 400, 'guided_choice');
});

test('two constraints that say different things are refused, and both are named', async () => {
  await refused('/v1/completions', { guided_regex: 'a', guided_choice: ['b'] }, 400, 'guided_regex', 'guided_choice');
  await refused('/v1/chat/completions', { response_format: format(person), grammar: 'root ::= "a"' }, 400, 'response_format', 'grammar');
});

// A text of JSON, so that its depth is nobody's stack here.
const nested = (depth) => `${'{"not":'.repeat(depth)}{}${'}'.repeat(depth)}`;
const choices = (count) => Array.from({ length: count }, (_, i) => ({ type: 'string', pattern: `^.*a.{${i % 30}}b$` }));
const hostile = {
  'deep': () => `{"prompt":"x","max_tokens":5,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${nested(20000)}}}}`,
  'huge': () => JSON.stringify({ prompt: 'x', response_format: format({ enum: Array.from({ length: 200000 }, (_, i) => `word ${i}`) }) }),
  'catastrophic regular expression': () => JSON.stringify({ prompt: 'x', guided_regex: '(.*a.{25}b|.*c.{26}d|.*e.{24}f)*z' }),
  'regular expression of large counts': () => JSON.stringify({ prompt: 'x', guided_regex: '((a{1,1000}){1,1000}){1,1000}' }),
  'products of patterns': () => JSON.stringify({ prompt: 'x', response_format: format({ allOf: choices(30) }) }),
  'references in a circle': () => JSON.stringify({ prompt: 'x', response_format: format({ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }) }),
  'grammar of doubling rules': () => JSON.stringify({ prompt: 'x', grammar:
    `root ::= r0\n${Array.from({ length: 60 }, (_, i) => `r${i} ::= r${i + 1} r${i + 1} | r${i + 1}`).join('\n')}\nr60 ::= "a"?\n` }),
};

test('hostile schemas are refused in bounded time, while the stream of another client goes on', async () => {
  const reader = (await server.post('/v1/completions',
    { prompt: 'x', max_tokens: 1900, ignore_eos: true, stream: true, temperature: 1 })).body.getReader();
  let pieces = 0, done = false;
  const reading = (async () => {
    while (!(await reader.read()).done) pieces++;
    done = true;
  })();
  for (const [name, body] of Object.entries(hostile)) {
    const before = pieces, began = performance.now();
    const response = await server.post('/v1/completions', body());
    const { error } = await response.json();
    const seconds = (performance.now() - began) / 1000;
    console.log(`${name}: ${response.status} after ${seconds.toFixed(2)} s, ${pieces - before} pieces meanwhile: ${error?.message.slice(0, 120)}`);
    assert.ok(response.status < 500, `${name}: ${response.status}`); // what takes long is told of behind a head that has gone out
    assert.ok(error ? error.type === 'invalid_request_error' : name.startsWith('grammar'), name);
  }
  assert.ok(done || pieces > 0);
  await reader.cancel();
  await reading.catch(() => {});
});

// ---- tools ----

const weather = (more = {}) => ({ type: 'function', function: { name: 'weather', ...more,
  parameters: { type: 'object', properties: { place: { enum: ['Oslo', 'Rome'] }, days: { type: 'integer', minimum: 1, maximum: 7 } },
    required: ['place', 'days'], additionalProperties: false } } });
const clock = (more = {}) => ({ type: 'function', function: { name: 'clock', ...more,
  parameters: { type: 'object', properties: { zone: { enum: ['utc', 'local'] } }, required: ['zone'], additionalProperties: false } } });
const parameters = { weather: weather().function.parameters, clock: clock().function.parameters };

function called({ message, finish_reason }, names = Object.keys(parameters)) {
  assert.equal(finish_reason, 'tool_calls', JSON.stringify(message));
  assert.ok(message.tool_calls.length > 0);
  for (const { function: { name, arguments: args } } of message.tool_calls) {
    assert.ok(names.includes(name), name);
    fulfils(parameters[name], args);
  }
  return message.tool_calls;
}

// A hot model that may call as often as it likes is led to an end.
const [callBegin] = tokensWith('<｜tool▁call▁begin｜>'), [callsEnd] = tokensWith('<｜tool▁calls▁end｜>');
const tiring = { logit_bias: { [callsEnd]: 20 } };

test('a call that is required comes, with arguments of its schema', async () => {
  const names = new Set();
  for (let seed = 0; seed < 6; seed++) {
    const several = await chat({ tools: [weather({ strict: true }), clock({ strict: true })], tool_choice: 'required', seed, ...tiring });
    called(several.choices[0]).forEach((call) => names.add(call.function.name));
    const one = await chat({ tools: [weather(), clock()], tool_choice: 'required', parallel_tool_calls: false, seed });
    assert.equal(called(one.choices[0]).length, 1);
  }
  assert.equal(names.size, 2);
});

test('a call that is named is the only one', async () => {
  for (const name of ['weather', 'clock']) {
    const { choices: [choice] } = await chat({ tools: [weather(), clock()], tool_choice: { type: 'function', function: { name } } });
    assert.equal(called(choice, [name]).length, 1);
  }
});

test('a strict tool that is called by the model\'s own will has arguments of its schema', async () => {
  const ask = { tools: [weather({ strict: true }), clock()], parallel_tool_calls: false };
  for (let seed = 0; seed < 4; seed++) {
    const { choices: [{ message, finish_reason }] } = await chat({ ...ask, seed, logit_bias: { [callBegin]: 100 } });
    assert.equal(message.tool_calls.length, 1);
    const [{ function: { name, arguments: args } }] = message.tool_calls;
    if (name === 'weather') called({ message, finish_reason });
    else if (finish_reason === 'tool_calls') fulfils({ type: 'object' }, args);
  }
  // Who calls nothing is free.
  const { choices: [{ message }] } = await chat({ ...ask, temperature: 0, logit_bias: { [callBegin]: -100 } });
  assert.equal(message.tool_calls, undefined);
  assert.ok(message.content.length > 0);
});

test('a model thinks before a call that is required', async () => {
  const { choices: [choice] } = await chat({ tools: [weather()], tool_choice: 'required', parallel_tool_calls: false,
    thinking: { type: 'enabled' }, temperature: 0.6 });
  called(choice, ['weather']);
  assert.ok(choice.message.reasoning_content.length > 10);
});

test('the calls of a stream are those of the whole answer', async () => {
  const ask = { tools: [weather(), clock()], tool_choice: 'required', seed: 9, ...tiring };
  const whole = called((await chat(ask)).choices[0]).map((call) => call.function);
  const calls = [];
  for (const { choices: [choice] } of await events('/v1/chat/completions', { messages: question, ...hot, ...ask }))
    for (const { index, function: { name, arguments: args } } of choice?.delta.tool_calls ?? []) {
      calls[index] ??= { name, arguments: '' };
      calls[index].arguments += args ?? '';
    }
  assert.deepEqual(calls, whole);
});

// ---- the other APIs ----

test('Responses have a format and forced functions, too', async () => {
  const ask = (more) => post('/v1/responses', { input: 'Who?', temperature: 1.5, seed: 3, max_output_tokens: 900, ...more });
  const text = ({ output }) => output.find(({ type }) => type === 'message').content[0].text;
  const answer = await ask({ text: { format: { type: 'json_schema', name: 'answer', schema: person } } });
  assert.equal(answer.status, 'completed');
  fulfils(person, text(answer));
  const tools = [{ ...weather().function, type: 'function', strict: true }, { ...clock().function, type: 'function', strict: false }];
  for (const [tool_choice, names] of [['required', ['weather', 'clock']], [{ type: 'function', name: 'clock' }, ['clock']]]) {
    const { output } = await ask({ tools, tool_choice });
    const calls = output.filter(({ type }) => type === 'function_call');
    assert.ok(calls.length > 0, JSON.stringify(output));
    for (const { name, arguments: args } of calls) {
      assert.ok(names.includes(name));
      fulfils(parameters[name], args);
    }
  }
});

test('Anthropic\'s Messages have a format and forced tools, too', async () => {
  const ask = (more) => post('/v1/messages', { messages: [{ role: 'user', content: 'Who?' }], seed: 3, max_tokens: 900, ...more });
  for (const more of [{ output_format: { type: 'json_schema', schema: person } },
    { output_config: { format: { type: 'json_schema', schema: person } } }]) {
    const { content, stop_reason } = await ask(more);
    assert.equal(stop_reason, 'end_turn');
    fulfils(person, content[0].text);
  }
  const tools = [weather(), clock()].map(({ function: { name, parameters: input_schema } }) => ({ name, input_schema }));
  for (const [tool_choice, names] of [[{ type: 'any' }, ['weather', 'clock']], [{ type: 'tool', name: 'clock' }, ['clock']],
    [{ type: 'any', disable_parallel_tool_use: true }, ['weather', 'clock']]]) {
    const { content, stop_reason } = await ask({ tools, tool_choice });
    assert.equal(stop_reason, 'tool_use');
    const uses = content.filter(({ type }) => type === 'tool_use');
    assert.ok(uses.length > 0 && (!tool_choice.disable_parallel_tool_use || uses.length === 1));
    for (const { name, input } of uses) {
      assert.ok(names.includes(name));
      fulfils(parameters[name], JSON.stringify(input));
    }
  }
});

test('nothing is left of constrained requests', async () => {
  const metrics = await server.quiet();
  assert.equal(metrics['fathom_kv_pages{state="held"}'], 0);
  assert.equal(metrics.fathom_requests_held, 0);
});
