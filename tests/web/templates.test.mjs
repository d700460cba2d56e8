// SPDX-License-Identifier: Apache-2.0
// Protects tools with checkpoints whose own templates have no place for them, as DeepSeek publishes them: a gateway
// brings a template, its model's calls are found, and `fathom template` prints the prompt that the model reads.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { deepseek, deepseekV3, deepseekV32, glm, kimi } from './lib/families.mjs';
import { Puppet, place, read, say, show, weather } from './lib/puppet.mjs';
import { binary, root } from './lib/server.mjs';

const goldens = `${root}tests/serving/text/goldens/`;
const published = (file) => JSON.parse(readFileSync(file, 'utf8')).chat_template;

// Own templates, with the calls that their models write; those of other families have a place for tools.
const checkpoints = [
  { ...deepseekV3, name: 'DeepSeek-V3', template: published(`${goldens}chat_v3.json`) },
  { ...deepseekV3, name: 'DeepSeek-V3-0324', template: published(`${goldens}chat_v3_0324.json`) },
  { ...deepseekV3, name: 'DeepSeek-R1-0528', template: published(`${goldens}chat_r1_0528.json`) },
  { ...deepseekV3, name: 'DeepSeek-R1', template: published(`${goldens}chat_r1.json`), opens: '</think>' },
  { ...deepseekV3, name: 'tiny-r1', template: published(`${root}models/tiny-r1/tokenizer_config.json`), opens: '</think>' },
  { ...deepseek, name: 'DeepSeek-V3.1', template: published(`${goldens}chat_v3_1.json`) },
  // Without a token for its mark, which the puppet's answer would leave out of a prompt.
  { ...deepseekV32, tokens: [], template: readFileSync(`${root}models/templates/deepseek-v3.2.jinja`, 'utf8') },
  kimi, glm,
];

async function template(directory, api, body, ...options) {
  const child = spawn(binary, ['template', '--model', directory, '--api', api, ...options, '-']);
  const [out, errors] = [child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray());
  child.stdin.end(JSON.stringify(body));
  const [code] = await once(child, 'exit');
  assert.equal(code, 0, (await errors).join(''));
  return (await out).join('');
}

const servers = new Map();
after(() => Promise.all([...servers.values()].map(async (server) => (await server).stop())));
const serverOf = (family) => {
  if (!servers.has(family)) servers.set(family, Puppet.start({ family }));
  return servers.get(family);
};

const tools = [{ type: 'function', function: weather }];
const asked = { id: 'call00000', type: 'function', function: { name: 'weather', arguments: JSON.stringify({ place }) } };
const again = { ...asked, id: 'call00001' };
const user = (content) => ({ role: 'user', content });
const result = (content, id = asked.id) => ({ role: 'tool', tool_call_id: id, content });
const spoken = (content, ...calls) => ({ role: 'assistant', content, ...calls.length ? { tool_calls: calls } : {} });

// Each ends with what has the model show its prompt.
const conversations = {
  'one question': [user(show)],
  'a system': [{ role: 'system', content: 'Be brief.' }, user(show)],
  'parallel calls': [user('Look.'), spoken('I look.', asked, again), result('rain'), result(show, again.id)],
  'rounds of calls': [user('Look.'), spoken(null, asked), result('rain'), spoken(null, again), result('sun', again.id),
    spoken('It clears up.'), user(show)],
};

for (const family of checkpoints) {
  for (const [name, messages] of Object.entries(conversations)) {
    test(`${family.name}: the command prints what the model reads: ${name}`, async () => {
      const server = await serverOf(family);
      for (const more of [{ tools }, { tools, tool_choice: 'none' }, {}]) {
        const body = { model: 'puppet', messages, ...more };
        const answer = await (await server.post('/v1/chat/completions', body)).json();
        const { content, reasoning_content: thoughts } = answer.choices[0].message;
        const prompt = read(content || thoughts), printed = await template(server.directory, 'chat', body);
        // Thoughts come back without the blanks at their end: there the number of tokens counts.
        assert.equal(content ? printed : printed.trimEnd(), prompt);
        const ids = (await template(server.directory, 'chat', body, '--tokens')).trim().split(' ');
        assert.equal(ids.length, answer.usage.prompt_tokens);
        assert.equal(prompt.includes(weather.description), more.tools !== undefined && !more.tool_choice);
      }
    });
  }

  test(`${family.name}: a call is made with the checkpoint's own template`, async () => {
    const server = await serverOf(family);
    const text = (family.opens ?? '') + family.calls([['weather', { place }, 'call00000']]);
    const body = { model: 'puppet', messages: [user(say(text))], tools };
    const answer = await (await server.post('/v1/chat/completions', body)).json();
    const [{ message, finish_reason: reason }] = answer.choices;
    assert.equal(reason, 'tool_calls');
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { place });
  });
}

test('the command prints what the model reads in the other APIs', async () => {
  const server = await serverOf(checkpoints[0]);
  const bodies = {
    messages: { model: 'puppet', max_tokens: 9000, system: 'Be brief.', messages: [user(show)],
      tools: [{ name: 'weather', description: weather.description, input_schema: weather.parameters }] },
    responses: { model: 'puppet', instructions: 'Be brief.', input: show, tools: [{ type: 'function', ...weather }] },
  };
  for (const [api, body] of Object.entries(bodies)) {
    const answer = await (await server.post(`/v1/${api}`, body)).json();
    const prompt = read(api === 'messages' ? answer.content[0].text : answer.output[0].content[0].text);
    assert.ok(prompt.includes('# Tools') && prompt.includes(weather.description));
    assert.equal(await template(server.directory, api, body), prompt);
  }
});

test('the server reports the template that it brings', async () => {
  const { log } = await serverOf(checkpoints[0]);
  assert.match(log, /leaves out tools or calls in its chat template, a built-in one renders them template=deepseek-v3\n/);
});
