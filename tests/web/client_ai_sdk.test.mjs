// SPDX-License-Identifier: Apache-2.0
// Protects what programs do with Vercel's AI SDK through its providers for DeepSeek and for servers that speak OpenAI's
// API. What the model writes is decided by each test (lib/puppet.mjs), but where constraints are: there it is a real one
// that knows nothing of schemas (lib/tiny.mjs).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createDeepSeek } from '@ai-sdk/deepseek';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateObject, generateText, stepCountIs, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { deepseek } from './lib/families.mjs';
import { Puppet, place, read, repeat, say, show } from './lib/puppet.mjs';
import { Server, same } from './lib/server.mjs';
import { Tiny } from './lib/tiny.mjs';

let server, tiny, embedded, providers, constrained, untouched;

const providersOf = ({ url }) => ({
  deepseek: createDeepSeek({ baseURL: `${url}/v1`, apiKey: 'none' }),
  'openai-compatible': createOpenAICompatible({
    name: 'fathom', baseURL: `${url}/v1`, apiKey: 'none', includeUsage: true, supportsStructuredOutputs: true,
  }),
});

before(async () => {
  server = await Puppet.start({ stepMs: 2 });
  tiny = await Tiny.start();
  embedded = await Server.start(...same);
  providers = providersOf(server);
  constrained = providersOf(tiny);
  untouched = providersOf(embedded);
});

after(() => Promise.all([server?.stop(), tiny?.stop(), embedded?.stop()]));

const { calls } = deepseek;

// A tool that says what was asked of it, and that its second result is the end of it.
function weather() {
  const asked = [];
  return {
    asked,
    tools: {
      weather: tool({
        description: 'What the weather is like at a place.',
        inputSchema: z.object({ place: z.string() }),
        execute: async ({ place: where }) => {
          asked.push(where);
          return asked.length < 2 ? { rain: true } : { rain: false, then: say('Rain in one.') };
        },
      }),
    },
  };
}

const twoCalls = say(`Let me look.${calls([['weather', { place }], ['weather', { place: 'Oslo' }]])}`);

for (const name of ['deepseek', 'openai-compatible']) {
  const model = (id = 'puppet') => providers[name](id);
  const ask = (prompt, more = {}) => ({ model: model(), prompt, maxRetries: 0, ...more });

  test(`ai sdk, ${name}: generateText has text, a reason and usage`, async () => {
    const answer = await generateText(ask(say('Hello, “world” 🙂')));
    assert.deepEqual([answer.text, answer.finishReason, answer.warnings], ['Hello, “world” 🙂', 'stop', []]);
    assert.ok(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
  });

  test(`ai sdk, ${name}: streamText says what generateText says`, async () => {
    const answer = streamText(ask(say('One, two, three.')));
    const pieces = [];
    for await (const piece of answer.textStream) pieces.push(piece);
    assert.equal(pieces.join(''), 'One, two, three.');
    assert.equal(await answer.finishReason, 'stop');
    assert.ok((await answer.usage).outputTokens >= 3);
  });

  test(`ai sdk, ${name}: thoughts are reasoning, whole and streamed`, async () => {
    const asked = ask(say('I ponder.</think>Forty-two.'), { model: model('deepseek-reasoner') });
    const whole = await generateText(asked);
    assert.deepEqual([whole.reasoningText, whole.text], ['I ponder.', 'Forty-two.']);
    assert.ok(whole.usage.outputTokenDetails.reasoningTokens > 0);
    const streamed = streamText(asked);
    assert.deepEqual([await streamed.reasoningText, await streamed.text], ['I ponder.', 'Forty-two.']);
  });

  test(`ai sdk, ${name}: generateText runs two tools and answers with their results`, async () => {
    const { asked, tools } = weather();
    const answer = await generateText(ask(twoCalls, { tools, stopWhen: stepCountIs(3) }));
    // Both run at once, so who is first is open.
    assert.deepEqual([...asked].sort(), [place, 'Oslo'].sort());
    assert.deepEqual(answer.steps.map(({ finishReason }) => finishReason), ['tool-calls', 'stop']);
    assert.equal(answer.steps[0].text, 'Let me look.');
    assert.equal(answer.text, 'Rain in one.');
  });

  test(`ai sdk, ${name}: streamText runs two tools and answers with their results`, async () => {
    const { asked, tools } = weather();
    const answer = streamText(ask(twoCalls, { tools, stopWhen: stepCountIs(3) }));
    assert.equal(await answer.text, 'Rain in one.');
    assert.equal(asked.length, 2);
    const [first, second] = await answer.steps;
    assert.deepEqual(first.toolCalls.map(({ input }) => input.place), [place, 'Oslo']);
    assert.deepEqual([first.finishReason, second.finishReason], ['tool-calls', 'stop']);
  });

  test(`ai sdk, ${name}: streamText thinks and then runs a tool`, async () => {
    const { asked, tools } = weather();
    const prompt = say(`I must look.</think>${calls([['weather', { place }]])}`);
    const answer = streamText(ask(prompt, { model: model('deepseek-reasoner'), tools }));
    const parts = [];
    for await (const { type } of answer.fullStream) if (parts.at(-1) !== type) parts.push(type);
    assert.ok(parts.indexOf('reasoning-delta') < parts.indexOf('tool-call'), parts.join());
    assert.equal(await answer.reasoningText, 'I must look.');
    assert.deepEqual(asked, [place]);
  });

  // When a part is told to be over is up to the provider.
  test(`ai sdk, ${name}: thoughts, words and parallel calls stream in their order`, async () => {
    const { tools } = weather();
    const prompt = say(`I must look.</think>Let me see.${calls([['weather', { place }], ['weather', { place: 'Oslo' }]])}`);
    const answer = streamText(ask(prompt, { model: model('deepseek-reasoner'), tools }));
    const parts = [], made = [];
    for await (const { type, toolCallId, input } of answer.fullStream) {
      if (/-delta$|^tool-input-start$/.test(type) && parts.at(-1) !== type) parts.push(type);
      if (type === 'tool-call') made.push([toolCallId, input.place]);
    }
    const call = ['tool-input-start', 'tool-input-delta'];
    assert.deepEqual(parts, ['reasoning-delta', 'text-delta', ...call, ...call]);
    assert.deepEqual(made.map(([, where]) => where), [place, 'Oslo']);
    assert.notEqual(made[0][0], made[1][0]);
    assert.equal(await answer.finishReason, 'tool-calls');
  });

  test(`ai sdk, ${name}: a model reads the conversation`, async () => {
    const { prompt, ...rest } = ask('');
    assert.equal(prompt, '');
    const { text } = await generateText({
      ...rest, system: 'Be brief.',
      messages: [{ role: 'user', content: 'first' }, { role: 'assistant', content: 'Aye.' },
        { role: 'user', content: [{ type: 'text', text: `second${show}` }] }],
    });
    assert.match(read(text), /Be brief\.\s+<｜User｜>first<｜Assistant｜><\/think>Aye\.<｜end▁of▁sentence｜><｜User｜>second/);
  });

  test(`ai sdk, ${name}: a stream that is aborted gives its pages back`, async () => {
    const controller = new AbortController();
    const answer = streamText(ask(repeat('again '), { abortSignal: controller.signal }));
    let pieces = 0;
    for await (const piece of answer.textStream) {
      assert.equal(typeof piece, 'string');
      if (++pieces === 5) controller.abort();
    }
    assert.ok(pieces >= 5);
    assert.equal((await server.quiet())['fathom_kv_pages{state="held"}'], 0);
  });

  test(`ai sdk, ${name}: a tool that must be called has an input that its zod schema describes`, async () => {
    const inputSchema = z.object({ place: z.enum(['Oslo', 'Rome']), days: z.number().int().min(1).max(7) });
    for (const toolChoice of ['required', { type: 'tool', toolName: 'travel' }]) {
      const { toolCalls, finishReason } = await generateText({
        model: constrained[name]('default'), prompt: 'Where?', maxRetries: 0, toolChoice, temperature: 1, maxOutputTokens: 1500,
        tools: { travel: tool({ inputSchema }) },
      });
      assert.equal(finishReason, 'tool-calls');
      assert.ok(toolCalls.length > 0);
      for (const { input } of toolCalls) assert.ok(inputSchema.safeParse(input).success, JSON.stringify(input));
    }
  });

  test(`ai sdk, ${name}: the embedded model makes a call that it must make`, async () => {
    const inputSchema = z.object({ place: z.enum(['Oslo', 'Rome']) });
    const { toolCalls, finishReason } = await generateText({
      model: untouched[name]('default'), prompt: 'What is 4728 + 915?', maxRetries: 0, temperature: 0, maxOutputTokens: 1500,
      toolChoice: { type: 'tool', toolName: 'travel' }, tools: { travel: tool({ inputSchema }) },
    });
    assert.equal(finishReason, 'tool-calls');
    for (const { input } of toolCalls) assert.ok(inputSchema.safeParse(input).success, JSON.stringify(input));
    assert.ok(toolCalls.length > 0);
  });

  test(`ai sdk, ${name}: a refusal is an error with its status and its message`, async () => {
    await assert.rejects(generateText(ask('x', { model: model('gpt-4') })),
      (error) => APICallError.isInstance(error) && error.statusCode === 404 && /gpt-4/.test(error.message));
    await assert.rejects(generateText(ask('x', { temperature: 3 })),
      (error) => APICallError.isInstance(error) && error.statusCode === 422 && /temperature/.test(error.message));
  });
}

const Pet = z.object({ kind: z.enum(['otter', 'fox']), name: z.string().max(12), tame: z.boolean() });

test('ai sdk, openai-compatible: generateObject and streamObject bring what a zod schema describes', async () => {
  const ask = { model: constrained['openai-compatible']('default'), schema: Pet, prompt: 'Who?', temperature: 1.5, maxRetries: 0 };
  for (let seed = 0; seed < 4; seed++) {
    const { object, finishReason, warnings } = await generateObject({ ...ask, seed });
    assert.equal(finishReason, 'stop');
    assert.ok(Pet.safeParse(object).success);
    assert.deepEqual(warnings, []);
  }
  const { partialObjectStream, object } = streamObject({ ...ask, seed: 5 });
  let last;
  for await (const partial of partialObjectStream) last = partial;
  assert.deepEqual(last, await object);
});

// This provider asks for any JSON object and puts the schema into the prompt.
test('ai sdk, deepseek: generateObject brings a JSON object', async () => {
  const pet = { kind: 'fox', name: 'Ida', tame: false };
  const ask = { model: providers.deepseek('puppet'), schema: Pet, maxRetries: 0 };
  assert.deepEqual((await generateObject({ ...ask, prompt: say(JSON.stringify(pet)) })).object, pet);
});

test('ai sdk, deepseek: thinking and its effort are switched by the provider\'s own options', async () => {
  for (const [type, tail] of [['enabled', '<think>'], ['disabled', '</think>']]) {
    const answer = await generateText({
      model: providers.deepseek('puppet'), prompt: show, maxRetries: 0,
      providerOptions: { deepseek: { thinking: { type }, ...type === 'enabled' && { reasoningEffort: 'max' } } },
    });
    assert.ok(read(answer.text || answer.reasoningText).endsWith(tail), `${type}: ${answer.text}`);
  }
});
