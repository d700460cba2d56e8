// SPDX-License-Identifier: Apache-2.0
// Protects what programs do with Ollama's own client. What the model writes is decided by each test (lib/puppet.mjs),
// but where an answer is constrained: there it is a real one that knows nothing of schemas (lib/tiny.mjs).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import { z } from 'zod/v4';
import { deepseek } from './lib/families.mjs';
import { Puppet, fail, place, read, repeat, say, show, weather } from './lib/puppet.mjs';
import { Tiny } from './lib/tiny.mjs';

let server, client, tiny;

before(async () => {
  server = await Puppet.start({ stepMs: 2 });
  client = new Ollama({ host: server.url });
  tiny = await Tiny.start();
});

after(async () => {
  await server?.stop();
  await tiny?.stop();
});

const { calls } = deepseek;
const tools = [{ type: 'function', function: weather }];
const body = (content, more) => ({ model: 'puppet', messages: [{ role: 'user', content }], ...more });
const ask = (content, more) => client.chat(body(content, more));

// A stream's lines joined to one message, as programs do; `lines` has them all.
async function collect(stream) {
  const seen = { content: '', thinking: '', tool_calls: [], lines: [] };
  for await (const line of stream) {
    seen.lines.push(line);
    seen.content += line.message?.content ?? line.response;
    seen.thinking += line.message?.thinking ?? line.thinking ?? '';
    seen.tool_calls.push(...line.message?.tool_calls ?? []);
  }
  return seen;
}

function ended(last, count) {
  assert.equal(last.done, true);
  assert.ok(last.prompt_eval_count > 0 && last.eval_count === count, JSON.stringify(last));
  assert.ok(last.total_duration >= last.eval_duration && last.prompt_eval_duration > 0);
  assert.ok(!Number.isNaN(Date.parse(last.created_at)));
}

test('ollama: a chat has content, a reason and counts', async () => {
  const answer = await ask(say('Hello, “world” 🙂'));
  assert.deepEqual(answer.message, { role: 'assistant', content: 'Hello, “world” 🙂' });
  assert.deepEqual([answer.model, answer.done_reason], ['puppet', 'stop']);
  ended(answer, answer.eval_count);
  assert.equal((await ask(say('a'), { model: 'puppet:latest' })).message.content, 'a');
});

test('ollama: a stream says what a chat says', async () => {
  const text = 'One, two,\n\n  three: ünïcödé 🙂🙃.';
  const { content, lines } = await collect(await ask(say(text), { stream: true }));
  assert.equal(content, text);
  assert.ok(lines.length > 4);
  assert.ok(lines.slice(0, -1).every(({ done, message }) => done === false && message.role === 'assistant'));
  ended(lines.at(-1), (await ask(say(text))).eval_count);
});

test('ollama: thoughts are message.thinking, whole and streamed', async () => {
  const content = say('I ponder.</think>Forty-two.');
  const { message } = await ask(content, { think: true });
  assert.deepEqual([message.thinking, message.content], ['I ponder.', 'Forty-two.']);
  const streamed = await collect(await ask(content, { think: 'high', stream: true }));
  assert.deepEqual([streamed.thinking, streamed.content], ['I ponder.', 'Forty-two.']);
  assert.ok(read((await ask(show, { think: false })).message.content).endsWith('</think>'));
});

for (const stream of [false, true]) {
  test(`ollama: a tool is called, and its result goes back${stream ? ', streamed' : ''}`, async () => {
    const send = async (request) => {
      const answer = await client.chat({ ...request, stream });
      return stream ? collect(answer) : { tool_calls: [], ...answer.message };
    };
    const request = body(say(`Let me look.${calls([['weather', { place, days: 2 }], ['weather', { place: 'Oslo' }]])}`), { tools });
    const first = await send(request);
    assert.equal(first.content, 'Let me look.');
    assert.deepEqual(first.tool_calls.map((call) => [call.function.name, call.function.arguments]),
      [['weather', { place, days: 2 }], ['weather', { place: 'Oslo' }]]);
    const { content, tool_calls } = first;
    const history = [...request.messages, { role: 'assistant', content, tool_calls },
      { role: 'tool', tool_name: 'weather', content: 'rain' }, { role: 'tool', tool_name: 'weather', content: 'snow' }];
    const second = await send({ ...request, messages: [...history, { role: 'user', content: say('Rain and snow.') }] });
    assert.equal(second.content, 'Rain and snow.');
    const prompt = read((await send({ ...request, messages: [...history, { role: 'user', content: show }] })).content);
    assert.match(prompt, /Let me look\.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather/);
    assert.match(prompt, /<｜tool▁output▁begin｜>rain<｜tool▁output▁end｜><｜tool▁output▁begin｜>snow/);
  });
}

test('ollama: a format of a zod schema brings what it describes', async () => {
  const Pet = z.object({ tame: z.boolean(), born: z.iso.date() });
  const constrained = new Ollama({ host: tiny.url });
  const request = { model: 'default', messages: [{ role: 'user', content: 'Who?' }], options: { num_predict: 1500 } };
  const { message } = await constrained.chat({ ...request, format: z.toJSONSchema(Pet) });
  assert.ok(Pet.safeParse(JSON.parse(message.content)).success, message.content);
  const { response } = await constrained.generate(
    { model: 'default', prompt: 'Who?', format: z.toJSONSchema(Pet), options: { temperature: 1.5, num_predict: 1500 } });
  assert.ok(Pet.safeParse(JSON.parse(response)).success, response);
});

test('ollama: options limit the answer\'s length and stop it', async () => {
  const cut = await ask(repeat('on and '), { options: { num_predict: 9, num_ctx: 2048 } });
  assert.deepEqual([cut.done_reason, cut.eval_count], ['length', 9]);
  const stopped = await ask(say('one two three'), { options: { num_predict: -1, stop: ['two'] } });
  assert.deepEqual([stopped.message.content, stopped.done_reason], ['one ', 'stop']);
});

test('ollama: generate answers a prompt, whole and streamed', async () => {
  const answer = await client.generate({ model: 'puppet', system: 'Be brief.', prompt: say('Yes.') });
  assert.deepEqual([answer.response, answer.done_reason], ['Yes.', 'stop']);
  ended(answer, answer.eval_count);
  const { content, lines } = await collect(await client.generate({ model: 'puppet', prompt: say('Yes and no.'), stream: true }));
  assert.equal(content, 'Yes and no.');
  ended(lines.at(-1), lines.at(-1).eval_count);
  const { response } = await client.generate({ model: 'puppet', system: 'Be brief.', prompt: show });
  assert.match(read(response), /Be brief\.\s*<｜User｜>/);
});

test('ollama: the model is listed and shown', async () => {
  const { models } = await client.list();
  assert.ok(models.some(({ name, model, digest }) => name === 'puppet' && model === name && /^[0-9a-f]{64}$/.test(digest)));
  const { capabilities, model_info: info } = await client.show({ model: 'puppet' });
  assert.deepEqual(capabilities, ['completion', 'tools', 'thinking']);
  const { 'general.architecture': architecture } = info;
  const [{ max_model_len: most }] = (await (await fetch(`${server.url}/v1/models`)).json()).data;
  assert.equal(info[`${architecture}.context_length`], most);
  const { version } = await (await fetch(`${server.url}/api/version`)).json();
  assert.match(version, /^0\.\d+\.\d+$/);
});

test('ollama: a stream that is aborted gives its pages back', async () => {
  const stream = await ask(repeat('on and '), { stream: true });
  await assert.rejects(async () => {
    for await (const line of stream) if (line.message.content) stream.abort();
  }, (error) => error.name === 'AbortError');
  const metrics = await server.quiet();
  assert.equal(metrics['fathom_kv_pages{state="held"}'], 0);
});

test('ollama: an engine that fails in mid-answer says so', async () => {
  const { content, lines } = await collect(await ask(fail('so far '), { stream: true }));
  assert.match(content, /^so far/);
  assert.equal(lines.at(-1).done_reason, 'error');
  assert.equal((await ask(say('again'))).message.content, 'again');
});

test('ollama: refusals are errors with their status and their words', async () => {
  const refused = (promise, status, words) => assert.rejects(promise, (error) => {
    assert.match(error.message, words);
    assert.equal(error.status_code, status);
    return true;
  });
  await refused(ask('x', { model: 'llama3' }), 404, /'llama3' does not exist here/);
  await refused(ask('x', { options: { mirostat: 2 } }), 400, /mirostat/);
  await refused(ask('x', { options: { temperature: 9 } }), 400, /temperature/);
  await refused(client.show({ model: 'llama3' }), 404, /llama3/);
  await refused(client.pull({ model: 'llama3' }), 404, /neither downloads nor changes models/);
  await refused(client.embed({ model: 'puppet', input: 'x' }), 404, /computes no embeddings/);
  await refused(client.chat({ model: 'puppet', messages: [{ role: 'user', content: 'x', images: ['aGk='] }] }), 400, /images/);
});
