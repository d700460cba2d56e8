// SPDX-License-Identifier: Apache-2.0
// Protects tool calls in every format that models write them in: whatever the family, a client sees the same calls,
// whole and streamed, and the model reads them again as it wrote them.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import OpenAI from 'openai';
import { families } from './lib/families.mjs';
import { Puppet, place, read, say, show, weather } from './lib/puppet.mjs';

const tools = [{ type: 'function', function: weather }];
const made = [['weather', { place, days: 2 }, 'call00000'], ['weather', { place: 'Oslo' }, 'call00001']];

// One server for each family.
const servers = new Map();
after(() => Promise.all([...servers.values()].map(async (server) => (await server).stop())));

async function clientOf(family) {
  if (!servers.has(family)) servers.set(family, Puppet.start({ family }));
  const { url } = await servers.get(family);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  return (more) => client.chat.completions.create({ model: 'puppet', tools, ...more });
}

async function streamed(stream) {
  const seen = { content: '', calls: [], reason: null };
  for await (const { choices: [choice] } of stream) {
    seen.content += choice?.delta.content ?? '';
    for (const { index, id, function: { name, arguments: args } } of choice?.delta.tool_calls ?? []) {
      seen.calls[index] ??= { id, name, arguments: '' };
      seen.calls[index].arguments += args;
    }
    seen.reason = choice?.finish_reason ?? seen.reason;
  }
  return seen;
}

for (const family of families) {
  test(`${family.name}: a client sees the calls that the model writes`, async () => {
    const ask = await clientOf(family);
    const messages = [{ role: 'user', content: say(family.calls(made)) }];
    const { choices: [{ message, finish_reason }] } = await ask({ messages });
    const judge = (calls, reason) => {
      assert.equal(reason, 'tool_calls');
      assert.deepEqual(calls.map(({ name, arguments: args }) => [name, JSON.parse(args)]),
        made.map(([name, args]) => [name, args]));
    };
    judge(message.tool_calls.map((call) => call.function), finish_reason);
    assert.equal(message.content, null);
    const ids = message.tool_calls.map(({ id }) => id);
    if (family.id) assert.deepEqual(ids, made.map(([name], i) => family.id(name, i)));
    for (const id of ids) assert.match(id, family.ids ?? /^\S+$/);
    assert.equal(new Set(ids).size, 2);

    const seen = await streamed(await ask({ messages, stream: true }));
    judge(seen.calls, seen.reason);
    assert.equal(seen.content, '');

    const history = [{ role: 'user', content: 'How is it there?' }, message,
      ...ids.map((tool_call_id, i) => ({ role: 'tool', tool_call_id, content: `rain ${i}${i ? show : ''}` }))];
    const again = await ask({ messages: history });
    const prompt = read(again.choices[0].message.content);
    for (const part of ['Oslo', place.slice(0, 4), 'rain 0', 'rain 1'])
      assert.ok(prompt.includes(part), `${part} in ${prompt}`);
  });

  test(`${family.name}: an answer without calls is content alone`, async () => {
    const ask = await clientOf(family);
    for (const text of ['It is <b>fine</b>.', 'Brackets [1] {"a": 1} < 2', 'Begins: {"name']) {
      const messages = [{ role: 'user', content: say(text) }];
      const whole = await ask({ messages });
      assert.deepEqual([whole.choices[0].message.content, whole.choices[0].finish_reason], [text, 'stop']);
      const seen = await streamed(await ask({ messages, stream: true }));
      assert.deepEqual([seen.content, seen.reason], [text, 'stop']);
    }
  });
}
