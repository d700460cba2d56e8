// SPDX-License-Identifier: Apache-2.0
// Protects what programs do with the Responses API through OpenAI's own client.
// What the model writes is decided by each test (lib/puppet.mjs), but where constraints are: there it is a real one that
// knows nothing of schemas (lib/tiny.mjs).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { deepseek } from './lib/families.mjs';
import { Puppet, fail, place, read, repeat, say, show, weather } from './lib/puppet.mjs';
import { Tiny } from './lib/tiny.mjs';

let server, client;

before(async () => {
  server = await Puppet.start({ stepMs: 2 });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});

after(() => server?.stop());

const { calls } = deepseek;
const twoCalls = calls([['weather', { place }], ['weather', { place: 'Oslo' }]]);
const tools = [{ type: 'function', strict: false, ...weather }];
const ask = (input, more = {}) => client.responses.create({ model: 'puppet', input, ...more });
const typesOf = ({ output }) => output.map(({ type }) => type);

// Every event of a stream; each has the number after the last one's.
async function events(stream) {
  const seen = [];
  for await (const event of stream) {
    assert.equal(event.sequence_number, seen.length);
    seen.push(event);
  }
  return seen;
}

const joined = (list, type) => list.filter((event) => event.type === type).map(({ delta }) => delta).join('');

test('responses: an answer has text, a status and usage', async () => {
  const answer = await ask(say('Hello, “world” 🙂'));
  assert.deepEqual([answer.object, answer.status, answer.output_text], ['response', 'completed', 'Hello, “world” 🙂']);
  assert.deepEqual(typesOf(answer), ['message']);
  assert.deepEqual([answer.error, answer.incomplete_details, answer.model], [null, null, 'puppet']);
  const { input_tokens: read, output_tokens: written, total_tokens: total } = answer.usage;
  assert.ok(read > 0 && written > 0);
  assert.equal(total, read + written);
  assert.equal(answer.usage.output_tokens_details.reasoning_tokens, 0);
  assert.match(answer.id, /^resp_/);
});

test('responses: a stream reports the answer from its beginning to its end', async () => {
  const seen = await events(await ask(say('One, two, three.'), { stream: true }));
  assert.equal(joined(seen, 'response.output_text.delta'), 'One, two, three.');
  const order = seen.map(({ type }) => type.replace('response.', '')).filter((type, i, all) => type !== all[i - 1]);
  assert.deepEqual(order, ['created', 'in_progress', 'output_item.added', 'content_part.added', 'output_text.delta',
    'output_text.done', 'content_part.done', 'output_item.done', 'completed']);
  const { response } = seen.at(-1);
  const whole = await ask(say('One, two, three.'));
  // The client itself adds output_text to whole answers.
  const steady = ({ id, created_at, output, output_text, usage, ...rest }) =>
    ({ ...rest, texts: output.map(({ content }) => content) });
  assert.deepEqual(steady(response), steady(whole));
  assert.equal(response.usage.output_tokens, whole.usage.output_tokens);
});

// Ids, times and places in the cache differ from answer to answer; all else is the same.
const told = (response) => JSON.parse(JSON.stringify(response, (key, value) =>
  ['id', 'created_at', 'call_id', 'output_text', 'cached_tokens'].includes(key) ? undefined : value));

const shapes = {
  'a text': [say('Hello, “world” 🙂'), {}],
  'thoughts': [say('I ponder.</think>\n\nForty-two.'), { reasoning: { effort: 'high' } }],
  'thoughts behind a text': [[{ role: 'user', content: 'q' }, { type: 'function_call', call_id: 'c', name: 'weather', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: say('So.<think>Hm.</think>Yes.</think>') }], {}],
  'sealed thoughts': [say('I ponder.</think>Yes.'), { reasoning: { effort: 'high' }, include: ['reasoning.encrypted_content'] }],
  'calls': [say(twoCalls), { tools }],
  'a call behind a text': [say(`Let me see.${calls([['weather', { place }]])}`), { tools }],
  'a call of a tool that takes text': [say(calls([['note', { input: 'x "y"' }]])), { tools: [{ type: 'custom', name: 'note' }] }],
  'a text that is too long': [say('One, two, three, four.'), { max_output_tokens: 3 }],
};

test('responses: the last event of a stream has all that a whole answer has', async () => {
  for (const [shape, [input, more]] of Object.entries(shapes))
    for (const asked of [{}, { include: [...(more.include ?? []), 'message.output_text.logprobs'], top_logprobs: 2 }]) {
      const whole = told(await ask(input, { ...more, ...asked }));
      const seen = await events(await ask(input, { ...more, ...asked, stream: true }));
      assert.deepEqual(told(seen.at(-1).response), whole, shape);
      const items = seen.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => told(item));
      assert.deepEqual(items, whole.output, shape);
      const parts = seen.filter(({ type }) => type === 'response.content_part.done').map(({ part }) => part);
      assert.deepEqual(parts, whole.output.flatMap(({ content }) => content ?? []), shape);
      const texts = seen.filter(({ type }) => type === 'response.output_text.done');
      const said = whole.output.flatMap((item) => item.type === 'message' ? item.content : []);
      assert.deepEqual(texts.map(({ text, logprobs }) => ({ text, logprobs })), said.map(({ text, logprobs }) => ({ text, logprobs })), shape);
      const deltas = seen.flatMap((event) => event.type === 'response.output_text.delta' ? event.logprobs : []);
      assert.deepEqual(deltas, said.flatMap(({ logprobs }) => logprobs), shape);
      if (asked.top_logprobs && said.length) assert.ok(deltas.length > 0, shape);
    }
});

test('responses: the stream helper of the client puts the same answer together', async () => {
  const stream = client.responses.stream({ model: 'puppet', input: say('Well, well.') });
  const answer = await stream.finalResponse();
  assert.equal(answer.output[0].content[0].text, 'Well, well.');
});

test('responses: thoughts are an item of their own before the message', async () => {
  const input = say('I ponder.</think>Forty-two.');
  const answer = await ask(input, { reasoning: { effort: 'high' } });
  assert.deepEqual(typesOf(answer), ['reasoning', 'message']);
  assert.deepEqual(answer.output[0].content, [{ type: 'reasoning_text', text: 'I ponder.' }]);
  assert.equal(answer.output_text, 'Forty-two.');
  assert.ok(answer.usage.output_tokens_details.reasoning_tokens > 0);
  const seen = await events(await ask(input, { reasoning: { effort: 'high' }, stream: true }));
  assert.equal(joined(seen, 'response.reasoning_text.delta'), 'I ponder.');
  assert.equal(joined(seen, 'response.output_text.delta'), 'Forty-two.');
  assert.deepEqual(typesOf(seen.at(-1).response), ['reasoning', 'message']);
  const first = (type) => seen.findIndex((event) => event.type === type);
  assert.ok(first('response.reasoning_text.done') < first('response.output_text.delta'));
});

test('responses: a function is called, and its result goes back', async () => {
  const input = [{ role: 'user', content: say(`Let me look.${twoCalls}`) }];
  const first = await ask(input, { tools });
  assert.deepEqual(typesOf(first), ['message', 'function_call', 'function_call']);
  assert.equal(first.output_text, 'Let me look.');
  const made = first.output.filter(({ type }) => type === 'function_call');
  assert.deepEqual(made.map(({ name, arguments: args }) => [name, JSON.parse(args).place]),
    [['weather', place], ['weather', 'Oslo']]);
  assert.notEqual(made[0].call_id, made[1].call_id);
  const results = made.map(({ call_id }, i) => ({ type: 'function_call_output', call_id, output: `rain ${i}` }));
  const last = { role: 'user', content: [{ type: 'input_text', text: 'And so?' }] };
  const history = [...input, ...first.output, ...results];
  const second = await ask([...history, { ...last, content: say('It rains.') }], { tools });
  assert.equal(second.output_text, 'It rains.');
  const { output_text: prompt } = await ask([...history, { ...last, content: show }], { tools });
  assert.match(read(prompt), /<｜Assistant｜><\/think>Let me look\.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather/);
  assert.match(read(prompt), /<｜tool▁output▁begin｜>rain 0<｜tool▁output▁end｜><｜tool▁output▁begin｜>rain 1</);
});

// What Codex sends: servers of tools as namespaces, an editor that takes text, a search of the server's own, reasoning
// that it keeps sealed alone, and the system's words in several messages.
const agent = {
  instructions: 'You are an agent.', store: false, parallel_tool_calls: true, include: ['reasoning.encrypted_content'],
  reasoning: { effort: 'high', summary: 'auto' }, prompt_cache_key: 'session',
  tools: [
    { type: 'web_search', external_web_access: false },
    { type: 'namespace', name: 'mcp__sky', description: 'The sky.', tools: [{ type: 'function', strict: false, ...weather }] },
    { type: 'custom', name: 'apply_patch', description: 'Edits files.',
      format: { type: 'grammar', syntax: 'lark', definition: 'start: "*** Begin Patch"' } },
  ],
};
const patch = '*** Begin Patch\n+ "ä" \\ {}\n*** End Patch';

test('responses: an agent gets calls of its namespaces and custom tools, and gives results and reasoning back', async () => {
  const made = calls([['mcp__sky__weather', { place }], ['apply_patch', { input: patch }]]);
  const input = [
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Ask before you write.' }] },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: '<environment_context>linux</environment_context>' }] },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: say(`I plan.</think>Now.${made}`) }] },
  ];
  const seen = await events(await ask(input, { ...agent, stream: true }));
  const { response } = seen.at(-1);
  assert.deepEqual(typesOf(response), ['reasoning', 'message', 'function_call', 'custom_tool_call']);
  const [thought, , call, custom] = response.output;
  assert.deepEqual([call.namespace, call.name, JSON.parse(call.arguments).place], ['mcp__sky', 'weather', place]);
  assert.deepEqual([custom.name, custom.input], ['apply_patch', patch]);
  assert.deepEqual(response.tools.map(({ type }) => type), ['namespace', 'custom']);
  assert.equal(joined(seen, 'response.custom_tool_call_input.delta'), patch);
  assert.deepEqual(seen.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item), response.output);
  const whole = await ask(input, agent);
  assert.deepEqual(whole.output.map(({ id, call_id, ...item }) => item), response.output.map(({ id, call_id, ...item }) => item));
  // It keeps nothing of what the reasoning said openly.
  const { id, content, status, ...sealed } = thought;
  assert.deepEqual(content.map(({ text }) => text), ['I plan.']);
  const { output_text: prompt } = await ask([...input, sealed, ...response.output.slice(1),
    { type: 'function_call_output', call_id: call.call_id, output: 'rain' },
    { type: 'custom_tool_call_output', call_id: custom.call_id, output: 'Done.' },
    { role: 'user', content: show }], { ...agent, reasoning: { effort: 'none' } });
  assert.match(read(prompt), /mcp__sky__weather<｜tool▁sep｜>/);
  assert.ok(read(prompt).includes(`apply_patch<｜tool▁sep｜>${JSON.stringify({ input: patch })}`));
  assert.match(read(prompt), /<｜tool▁output▁begin｜>Done\.</);
  assert.match(read(prompt), /The input follows this grammar \(lark\):\\nstart/);
});

test('responses: a header lists what an agent is not given', async () => {
  const { response: { headers } } = await ask(say('Well.'), agent).withResponse();
  assert.equal(headers.get('x-fathom-warning'),
    'tools[0] is left out: no tools are run here; tools[2].format is shown to the model, not enforced');
});

test('responses: calls stream as items with their arguments', async () => {
  const seen = await events(await ask(say(twoCalls), { tools, stream: true }));
  const done = seen.filter(({ type }) => type === 'response.function_call_arguments.done');
  assert.deepEqual(done.map((event) => JSON.parse(event.arguments).place), [place, 'Oslo']);
  const added = seen.filter(({ type }) => type === 'response.output_item.added');
  assert.deepEqual(added.map(({ item, output_index }) => [item.type, item.name, output_index]),
    [['function_call', 'weather', 0], ['function_call', 'weather', 1]]);
  for (const { item_id, arguments: args } of done) {
    const mine = seen.filter((event) => event.item_id === item_id);
    assert.equal(joined(mine, 'response.function_call_arguments.delta'), args);
  }
  assert.deepEqual(typesOf(seen.at(-1).response), ['function_call', 'function_call']);
});

test('responses: instructions are what the model reads first', async () => {
  const { output_text: prompt } = await ask(`Hello${show}`, { instructions: 'Be brief.' });
  assert.match(read(prompt), /Be brief\.\s*<｜User｜>Hello/);
});

test('responses: an answer that is cut is incomplete and says why', async () => {
  const answer = await ask(repeat('on and '), { max_output_tokens: 9 });
  assert.deepEqual([answer.status, answer.incomplete_details], ['incomplete', { reason: 'max_output_tokens' }]);
  assert.equal(answer.usage.output_tokens, 9);
  const seen = await events(await ask(repeat('on and '), { max_output_tokens: 9, stream: true }));
  assert.equal(seen.at(-1).type, 'response.incomplete');
});

test('responses: an engine that fails in mid-answer ends the stream with what failed', async () => {
  const seen = await events(await ask(fail('so far '), { stream: true }));
  assert.equal(joined(seen, 'response.output_text.delta'), 'so far ');
  assert.ok(['response.failed', 'response.incomplete'].includes(seen.at(-1).type), seen.at(-1).type);
});

test('responses: an answer that is aborted in mid-stream gives its pages back', async () => {
  const stream = await ask(repeat('again '), { stream: true });
  let pieces = 0;
  for await (const event of stream) {
    assert.ok(event.type);
    if (++pieces === 8) stream.controller.abort();
  }
  assert.ok(pieces >= 8);
  assert.equal((await server.quiet())['fathom_kv_pages{state="held"}'], 0);
});

let tiny, constrained;
before(async () => {
  tiny = await Tiny.start();
  constrained = new OpenAI({ baseURL: `${tiny.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(() => tiny?.stop());

const hot = { model: 'default', input: 'Who?', temperature: 1.5, max_output_tokens: 1500 };
const Pet = z.object({ kind: z.enum(['otter', 'fox']), name: z.string().max(12), age: z.number().int().min(0).max(20) });

test('responses: responses.parse brings what a zod schema describes', async () => {
  for (let seed = 0; seed < 4; seed++) {
    const answer = await constrained.responses.parse({ ...hot, seed, text: { format: zodTextFormat(Pet, 'pet') } });
    assert.equal(answer.status, 'completed');
    assert.deepEqual(Pet.parse(answer.output_parsed), JSON.parse(answer.output_text));
  }
});

test('responses: a strict function that must be called has arguments that its zod schema describes', async () => {
  const tools = [zodResponsesFunction({ name: 'adopt', parameters: Pet })];
  for (const tool_choice of ['required', { type: 'function', name: 'adopt' }]) {
    const { output } = await constrained.responses.parse({ ...hot, seed: 1, tools, tool_choice, parallel_tool_calls: false });
    const made = output.filter(({ type }) => type === 'function_call');
    assert.ok(made.length > 0, JSON.stringify(output));
    for (const { arguments: args } of made) assert.ok(Pet.safeParse(JSON.parse(args)).success, args);
  }
});

test('responses: what needs a memory is refused by name', async () => {
  const refused = async (more, says) => {
    await assert.rejects(ask('x', more), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, `${says}: ${error.message}`);
      assert.match(error.message, says);
      return true;
    });
  };
  await refused({ store: true }, /store/);
  await refused({ previous_response_id: 'resp_1' }, /previous_response_id/);
  await refused({ background: true }, /background/);
  await refused({ temperature: 2.5 }, /temperature/);
  await refused({ tools: [{ type: 'file_search', vector_store_ids: ['v'] }] }, /file_search/);
  await refused({ tools: [{ type: 'web_search' }], tool_choice: 'required' }, /tool_choice/);
  await refused({ input: [{ type: 'item_reference', id: 'rs_1' }] }, /"store": false/);
  await refused({ tools, tool_choice: { type: 'web_search_preview' } }, /tool_choice/);
  await refused({ text: { format: { type: 'json_schema', name: 'a', schema: { $dynamicRef: '#a' } } } }, /\$dynamicRef/);
  await refused({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:,' }] }] }, /input_image/);
  await assert.rejects(ask('x', { model: 'gpt-5' }), OpenAI.NotFoundError);
});
