// SPDX-License-Identifier: Apache-2.0
// Protects the description of the API (/openapi.json): what OpenAI's client sends and what the server answers is what
// stands there, judged by a validator of JSON schemas between the two.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { Contract } from './lib/contract.mjs';
import { deepseek } from './lib/families.mjs';
import { Puppet, fail, place, say, weather } from './lib/puppet.mjs';

let server, contract, client, anthropic, ollama;

before(async () => {
  server = await Puppet.start();
  contract = await Contract.start(server);
  client = new OpenAI({ baseURL: `${contract.url}/v1`, apiKey: 'none', maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: contract.url, apiKey: 'none', maxRetries: 0 });
  ollama = new Ollama({ host: contract.url });
});

after(async () => {
  contract?.stop();
  await server?.stop();
});

const { calls } = deepseek;
const toolCall = say(`I must.</think>Let me look.${calls([['weather', { place }], ['weather', { place: 'Oslo' }]])}`);
const user = (content) => [{ role: 'user', content }];

async function drain(stream) {
  for await (const event of await stream) assert.ok(event);
}

// Nothing against the document, and something was looked at.
function kept(...exchanges) {
  assert.deepEqual(contract.violations.splice(0), []);
  for (const exchange of exchanges)
    assert.ok(contract.seen.has(exchange), `${exchange} in ${[...contract.seen].join()}`);
}

test('the description is an OpenAPI document by OpenAPI\'s own schema', () => {
  assert.equal(contract.judgeDocument(), null);
  assert.match(contract.document.openapi, /^3\.1\./);
});

test('the description names only what there is', async () => {
  for (const [path, operations] of Object.entries(contract.document.paths)) {
    for (const method of Object.keys(operations).filter((name) => ['get', 'post'].includes(name))) {
      const headers = { 'Content-Type': 'application/json' };
      const answer = await fetch(server.url + path.replace(/\{[^}]+\}/g, 'puppet'),
        { method, headers, ...method === 'post' && { body: '{}' } });
      assert.ok(![404, 405].includes(answer.status), `${method} ${path}: ${answer.status}`);
      await answer.arrayBuffer();
    }
  }
});

for (const stream of [false, true]) {
  const end = stream ? drain : (answer) => answer;
  const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false };
  const how = stream ? ', streamed' : '';

  test(`chats keep to the description${how}`, async () => {
    const chat = (content, more) =>
      end(client.chat.completions.create({ model: 'puppet', messages: user(content), stream, ...more }));
    const tools = [{ type: 'function', function: weather }];
    await chat(say('Hello 🙂'), { n: 2, temperature: 0.5, top_p: 0.9, seed: 7, stop: ['x'], user: 'me' });
    await chat(say('Hello 🙂'), { logprobs: true, top_logprobs: 3, max_completion_tokens: 4, logit_bias: { 5: 1 } });
    const told = stream ? { stream_options: { include_usage: true } } : {};
    await chat(toolCall, { tools, tool_choice: 'auto', thinking: { type: 'enabled' }, ...told });
    await chat(say('{}'), { response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema } } });
    await chat(say('{}'), { structured_outputs: { regex: '[{}]+' }, strict_order: false });
    await chat(toolCall, { tools: [{ type: 'function', function: { ...weather, strict: true } }], tool_choice: 'required' });
    await chat(say(calls([['edit', { input: 'a\n' }], ['weather', { place }]])), { tools: [...tools, { type: 'custom', custom: { name: 'edit' } }] });
    await chat(fail('so far '));
    kept('POST /v1/chat/completions 200');
  });

  test(`completions keep to the description${how}`, async () => {
    const complete = (prompt, more) => end(client.completions.create({ model: 'puppet', prompt, stream, ...more }));
    await complete(say('Hello 🙂'), { logprobs: 2, echo: true });
    await complete(['one', 'two'].map(say), { n: 2 });
    await complete([100, 200, 300], { max_tokens: 4 });
    await complete(say('a'), { guided_choice: ['a', 'b'] });
    await complete(say('a'), { grammar: 'root ::= "a"' });
    kept('POST /v1/completions 200');
  });

  test(`responses keep to the description${how}`, async () => {
    const respond = (input, more) => end(client.responses.create({ model: 'puppet', input, stream, ...more }));
    await respond(say('Hello 🙂'), { instructions: 'Be brief.', max_output_tokens: 5 });
    const tools = [{ type: 'function', strict: false, ...weather }];
    await respond(user(toolCall), { tools, reasoning: { effort: 'high' } });
    await respond(say('{}'), { text: { format: { type: 'json_schema', name: 'a', schema } } });
    await respond(user(toolCall), { tools, tool_choice: { type: 'function', name: 'weather' } });
    await respond(user(say(`So.</think>${calls([['sky__weather', { place }], ['edit', { input: 'a\n' }]])}`)), {
      tools: [{ type: 'web_search' }, { type: 'custom', name: 'edit' }, { type: 'namespace', name: 'sky', description: '', tools }],
      include: ['reasoning.encrypted_content'], reasoning: { effort: 'high' },
    });
    kept('POST /v1/responses 200');
  });

  test(`messages keep to the description${how}`, async () => {
    const { name, description, parameters: input_schema } = weather;
    const tools = [{ name, description, input_schema }];
    const message = (content, more) =>
      end(anthropic.messages.create({ model: 'puppet', max_tokens: 2000, messages: user(content), stream, ...more }));
    await message(say('Hello 🙂'), { system: 'Be brief.', stop_sequences: ['x'] });
    await message(toolCall, { tools, thinking: { type: 'enabled', budget_tokens: 1024 } });
    await message(say('{}'), { output_config: { format: { type: 'json_schema', schema } } });
    await message(toolCall, { tools, tool_choice: { type: 'tool', name: 'weather' } });
    kept('POST /v1/messages 200');
  });

  test(`Ollama's paths keep to the description${how}`, async () => {
    const tools = [{ type: 'function', function: weather }];
    const chat = async (content, more) => end(await ollama.chat({ model: 'puppet', messages: user(content), stream, ...more }));
    await chat(say('Hello 🙂'), { options: { temperature: 0.5, stop: ['x'] } });
    await chat(toolCall, { tools, think: true });
    await chat(say('{}'), { format: schema });
    await end(await ollama.generate({ model: 'puppet', prompt: say('Hello.'), think: true, stream }));
    await end(await ollama.generate({ model: 'puppet', prompt: '', keep_alive: '5m', stream }));
    kept('POST /api/chat 200', 'POST /api/generate 200');
  });
}

test('what else a client asks for keeps to the description', async () => {
  const models = await client.models.list();
  await client.models.retrieve(models.data[0].id);
  await anthropic.models.list();
  await anthropic.models.retrieve(models.data[0].id);
  await assert.rejects(anthropic.models.retrieve('claude'));
  await anthropic.messages.countTokens({ model: 'puppet', messages: user('Hello') });
  await ollama.list();
  await ollama.show({ model: 'puppet' });
  await fetch(`${contract.url}/api/version`);
  kept('GET /v1/models 200', 'POST /v1/messages/count_tokens 200', 'GET /api/tags 200', 'POST /api/show 200', 'GET /api/version 200');
});

test('refusals keep to the description', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'gpt-4', messages: user('x') }));
  await assert.rejects(client.chat.completions.create({ model: 'puppet', messages: [] }));
  await assert.rejects(client.completions.create({ model: 'puppet', prompt: 'x', temperature: -1 }));
  await assert.rejects(client.responses.create({ model: 'puppet', input: 'x', store: true }));
  await assert.rejects(anthropic.messages.create({ model: 'claude', max_tokens: 5, messages: user('x') }));
  await assert.rejects(ollama.chat({ model: 'llama3', messages: user('x') }));
  await assert.rejects(ollama.show({ model: 'llama3' }));
  kept('POST /api/chat 404', 'POST /api/show 404', 'POST /v1/chat/completions 404', 'POST /v1/chat/completions 400', 'POST /v1/completions 422');
});

test('an answer that does not keep to the description is seen', async () => {
  const body = { model: 'puppet', messages: user(say('x')) };
  const answer = await (await server.post('/v1/chat/completions', body)).json();
  const told = (more, changed = answer) => {
    contract.check({
      name: 'planted', method: 'POST', path: '/v1/chat/completions', status: 200,
      headers: { 'content-type': 'application/json' }, sent: JSON.stringify(body), answered: JSON.stringify(changed), ...more,
    });
    return contract.violations.splice(0).length;
  };
  assert.equal(told({}), 0);
  assert.equal(told({ answered: '{' }), 1);
  assert.equal(told({}, { ...answer, choices: 'none' }), 1);
  assert.equal(told({}, { ...answer, id: undefined }), 1);
  assert.equal(told({}, { ...answer, more: 1 }), 1);
  assert.equal(told({ sent: '{}' }), 1);
  assert.equal(told({ headers: { 'content-type': 'text/event-stream' }, answered: 'data: {}\n\n' }), 1);
  assert.equal(told({ headers: { 'content-type': 'text/html' } }), 1);
  assert.equal(told({ path: '/v1/nothing' }), 1);
});
