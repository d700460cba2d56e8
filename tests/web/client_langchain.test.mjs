// SPDX-License-Identifier: Apache-2.0
// Protects what programs do with LangChain's ChatDeepSeek. What the model writes is decided by each test
// (lib/puppet.mjs), but where constraints are: there it is a real one that knows nothing of schemas (lib/tiny.mjs).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatDeepSeek } from '@langchain/deepseek';
import { z } from 'zod';
import { deepseek } from './lib/families.mjs';
import { Puppet, place, read as readPrompt, repeat, say, show } from './lib/puppet.mjs';
import { Tiny } from './lib/tiny.mjs';

let server, tiny, chat, thinker, constrained;

before(async () => {
  server = await Puppet.start({ stepMs: 2 });
  tiny = await Tiny.start();
  const of = ({ url }, model, more = {}) => new ChatDeepSeek({
    model, apiKey: 'none', maxRetries: 0, configuration: { baseURL: `${url}/v1` }, ...more,
  });
  chat = of(server, 'puppet');
  thinker = of(server, 'deepseek-reasoner');
  constrained = of(tiny, 'default', { temperature: 1.5, maxTokens: 1500, modelKwargs: { seed: 6 } });
});

after(() => Promise.all([server?.stop(), tiny?.stop()]));

const { calls } = deepseek;
const weather = tool(async ({ place: where }) => `rain in ${where}`, {
  name: 'weather', description: 'What the weather is like at a place.', schema: z.object({ place: z.string() }),
});

async function joined(stream) {
  let whole;
  for await (const chunk of stream) whole = whole ? whole.concat(chunk) : chunk;
  return whole;
}

test('langchain: invoke has content and usage', async () => {
  const answer = await chat.invoke(say('Hello, “world” 🙂'));
  assert.equal(answer.content, 'Hello, “world” 🙂');
  assert.equal(answer.response_metadata.finish_reason, 'stop');
  const { input_tokens: read, output_tokens: written, total_tokens: total } = answer.usage_metadata;
  assert.equal(total, read + written);
});

test('langchain: a stream says what invoke says', async () => {
  const answer = await joined(await chat.stream(say('One, two, three.')));
  assert.equal(answer.content, 'One, two, three.');
});

test('langchain: thoughts are additional_kwargs.reasoning_content, whole and streamed', async () => {
  const ask = say('I ponder.</think>Forty-two.');
  for (const answer of [await thinker.invoke(ask), await joined(await thinker.stream(ask))])
    assert.deepEqual([answer.additional_kwargs.reasoning_content, answer.content], ['I ponder.', 'Forty-two.']);
});

test('langchain: thoughts, words and parallel calls stream in their order', async () => {
  const ask = say(`I must look.</think>Let me see.${calls([['weather', { place }], ['weather', { place: 'Oslo' }]])}`);
  const order = [];
  let whole;
  for await (const chunk of await thinker.bindTools([weather]).stream(ask)) {
    const { index, name } = chunk.tool_call_chunks?.[0] ?? {};
    const part = chunk.additional_kwargs.reasoning_content ? 'thoughts' : chunk.content ? 'words' : index === undefined ? null : `call ${index}`;
    if (part && order.at(-1) !== part) {
      assert.equal(name, part.startsWith('call') ? 'weather' : undefined);
      order.push(part);
    }
    whole = whole ? whole.concat(chunk) : chunk;
  }
  assert.deepEqual(order, ['thoughts', 'words', 'call 0', 'call 1']);
  assert.deepEqual([whole.additional_kwargs.reasoning_content, whole.content], ['I must look.', 'Let me see.']);
  assert.deepEqual(whole.tool_calls.map(({ args }) => args.place), [place, 'Oslo']);
  assert.equal(whole.response_metadata.finish_reason, 'tool_calls');
});

for (const streamed of [false, true]) {
  test(`langchain: bindTools gets two calls and gives their results back${streamed ? ', streamed' : ''}`, async () => {
    const model = chat.bindTools([weather]);
    const send = async (messages) => streamed ? joined(await model.stream(messages)) : model.invoke(messages);
    const messages = [new SystemMessage('Be brief.'),
      new HumanMessage(say(`Let me look.${calls([['weather', { place }], ['weather', { place: 'Oslo' }]])}`))];
    const first = await send(messages);
    assert.equal(first.content, 'Let me look.');
    assert.deepEqual(first.tool_calls.map(({ name, args }) => [name, args.place]),
      [['weather', place], ['weather', 'Oslo']]);
    assert.notEqual(first.tool_calls[0].id, first.tool_calls[1].id);
    const results = await Promise.all(first.tool_calls.map((call) => weather.invoke(call)));
    results.forEach((result, i) => {
      assert.ok(result instanceof ToolMessage);
      assert.equal(result.tool_call_id, first.tool_calls[i].id);
    });
    const history = [...messages, new AIMessage({ content: first.content, tool_calls: first.tool_calls }), ...results];
    assert.equal((await send([...history, new HumanMessage(say('Rain in both.'))])).content, 'Rain in both.');
    const prompt = readPrompt((await send([...history, new HumanMessage(show)])).content);
    assert.match(prompt, /<｜tool▁call▁begin｜>weather<｜tool▁sep｜>/);
    assert.match(prompt, /<｜tool▁output▁begin｜>rain in Oslo<｜tool▁output▁end｜>/);
  });
}

test('langchain: a stream that is aborted gives its pages back', async () => {
  const controller = new AbortController();
  let pieces = 0;
  await assert.rejects(async () => {
    for await (const chunk of await chat.stream(repeat('again '), { signal: controller.signal })) {
      assert.ok(chunk);
      if (++pieces === 5) controller.abort();
    }
  }, /[Aa]bort/);
  assert.ok(pieces >= 5);
  assert.equal((await server.quiet())['fathom_kv_pages{state="held"}'], 0);
});

test('langchain: batch asks several things at once', async () => {
  const answers = await chat.batch(['one', 'two', 'three'].map(say));
  assert.deepEqual(answers.map(({ content }) => content), ['one', 'two', 'three']);
});

test('langchain: withStructuredOutput brings what a zod schema describes', async () => {
  const Pet = z.object({ kind: z.enum(['otter', 'fox']), name: z.string().max(12), tame: z.boolean() });
  for (const method of ['jsonSchema', 'functionCalling', undefined])
    for (const includeRaw of [false, true]) {
      const model = constrained.withStructuredOutput(Pet, { name: 'pet', includeRaw, ...method && { method } });
      const found = await model.invoke('Who?');
      const pet = includeRaw ? found.parsed : found;
      assert.ok(Pet.safeParse(pet).success, `${method}: ${JSON.stringify(found)}`);
    }
});

test('langchain: bindTools gets a call that must be made', async () => {
  const travel = tool(async () => 'done', { name: 'travel', schema: z.object({ place: z.enum(['Oslo', 'Rome']) }) });
  for (const tool_choice of ['required', 'any', 'travel']) {
    const { tool_calls: made } = await constrained.bindTools([travel], { tool_choice }).invoke('Where?');
    assert.ok(made.length > 0);
    for (const { name, args } of made) {
      assert.equal(name, 'travel');
      assert.ok(['Oslo', 'Rome'].includes(args.place), JSON.stringify(args));
    }
  }
});

test('langchain: a refusal is an error with its status and its message', async () => {
  const forced = chat.bindTools([weather], { tool_choice: 'other' });
  await assert.rejects(forced.invoke('x'), (error) => error.status === 400 && /tool_choice/.test(error.message));
});
