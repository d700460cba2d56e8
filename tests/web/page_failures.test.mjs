// SPDX-License-Identifier: Apache-2.0
// Protects the chat page where something goes wrong: what came stays, an answer goes on when its server is back, and
// the page says what it waits for.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { Puppet, fail, say } from './lib/puppet.mjs';
import { Server, same } from './lib/server.mjs';
import { Tab, launch, startProxy } from './lib/tab.mjs';

const story = 'Tell me a story about a fox.';
let tiny, puppet, browser, tab;

before(async () => {
  [tiny, puppet, browser] = await Promise.all([Server.start(...same), Puppet.start(), launch()]);
});

after(async () => {
  await browser?.close();
  await Promise.all([tiny?.stop(), puppet?.stop()]);
});

beforeEach(() => { tab = null; });
afterEach(async () => { await tab?.close(); });

const open = async (server, ...more) => { tab = await Tab.open(browser, server.url, ...more); };

// An answer of the API, made by the test.
const event = (value) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const chunk = (delta, finish_reason = null) => event({ choices: [{ index: 0, delta, finish_reason }] });
const stream = (route, ...events) => route.fulfill({ contentType: 'text/event-stream', body: events.join('') });
const refuse = (route, status, error, headers = {}) => route.fulfill({ status, headers: { 'Content-Type': 'application/json', ...headers },
  body: JSON.stringify({ error }) });

async function answersOf(...routes) {
  await tab.page.route('**/v1/chat/completions', (route) => (routes.shift() ?? ((one) => one.continue()))(route));
}

const whole = async (temperature) => {
  const { choices: [{ message }] } = await (await tiny.post('/v1/chat/completions',
    { messages: [{ role: 'user', content: story }], temperature })).json();
  return message;
};

test('a server that goes away comes back by itself, and the answer is the same', async () => {
  const proxy = await startProxy(tiny.url);
  const { port } = proxy.address();
  const expected = await whole(0);
  await open(proxy);
  await tab.chooseTheLikeliest();
  const { asked } = tab;
  proxy.chunksMax = 12; // in the middle of the text
  const cut = new Promise((resolve) => { proxy.onCut = resolve; });
  await tab.ask(story);
  await cut;
  await tab.answer().filter({ hasText: /\S/ }).waitFor();
  await proxy.stop();
  await tab.page.getByText('The page asks again until the server is there.').waitFor();
  await tab.picture('away');
  const before = await tab.answer().textContent();
  assert.ok(before && expected.content.startsWith(before) && before.length < expected.content.length, before);
  const second = await startProxy(tiny.url, '/', port);
  await tab.askNow();
  await tab.finished(0);
  assert.equal(await tab.answer().textContent(), expected.content);
  assert.equal(await tab.answers().nth(0).locator('.thinking div').textContent(), expected.reasoning_content);
  assert.equal(asked[0].seed, asked.at(-1).seed);
  await tab.page.goto('about:blank');
  await second.stop();
});

test('an answer that is another one now goes on behind its words', async () => {
  await open(puppet);
  const { asked } = tab;
  await answersOf(
    (route) => stream(route, chunk({ content: 'The sea is ' })),
    (route) => stream(route, chunk({ content: 'The land is dry.' }, 'stop'), event('[DONE]')),
    (route) => stream(route, chunk({ content: 'deep.' }, 'stop'), event('[DONE]')));
  await tab.ask('x');
  await tab.answer().getByText('The sea is deep.').waitFor();
  assert.deepEqual(asked[2].messages.at(-1), { role: 'assistant', prefix: true, content: 'The sea is ' });
  assert.deepEqual(asked[0].messages, asked[1].messages);
});

test('a full queue is waited for', async () => {
  await open(puppet);
  await answersOf((route) => refuse(route, 429, { message: 'The queue is full.', code: 'queue_full' }, { 'Retry-After': '60' }));
  await tab.ask(say('at last'));
  await tab.page.getByText('The queue is full.').waitFor();
  await tab.picture('queue');
  await tab.askNow();
  await tab.finished(0);
  assert.equal(await tab.answer().textContent(), 'at last');
});

test('an answer that the engine could not finish stays, and goes on', async () => {
  await open(puppet);
  const { asked } = tab;
  await answersOf(
    (route) => stream(route, chunk({ content: 'Half of ' }), event({ error: { message: 'The step failed.', code: 'engine_failed' } })),
    (route) => stream(route, chunk({ content: 'Half of it.' }, 'stop'), event('[DONE]')));
  await tab.ask('x');
  await tab.page.getByRole('alert').waitFor();
  assert.match(await tab.page.getByRole('alert').textContent(), /The step failed\.The engine could not finish this answer/);
  assert.equal(await tab.answer().textContent(), 'Half of ');
  await tab.picture('failed');
  await tab.page.reload(); // it looks the same later
  await tab.page.getByText('The engine could not finish this answer').waitFor();
  await tab.button('Continue').click();
  await tab.answer().getByText('Half of it.').waitFor();
  assert.equal(asked[0].seed, asked[1].seed);
});

test('an engine that fails in mid-answer is shown as that, and the next answer comes', async () => {
  await open(puppet);
  await tab.ask(fail('so far '));
  await tab.page.getByText('The engine could not finish this answer').waitFor();
  assert.equal((await tab.answer().textContent()).trim(), 'so far');
  await tab.ask(say('well'));
  await tab.finished(1);
  assert.equal(await tab.answer(1).textContent(), 'well');
});

test('"Try again" makes a branch where text came', async () => {
  await open(puppet);
  await answersOf((route) => stream(route, chunk({ content: 'Precious words' }), event({ error: { message: 'Broken.' } })));
  await tab.ask(say('second'));
  await tab.page.getByRole('alert').waitFor();
  await tab.button('Try again').click();
  await tab.finished(0);
  await tab.button('Former branch').click();
  assert.equal(await tab.answer().textContent(), 'Precious words');
});

test('an answer without a text says so, keeps its question, and is left out of the next prompt', async () => {
  await open(puppet);
  const { asked } = tab;
  await answersOf((route) => stream(route, chunk({ content: '' }, 'stop'), event('[DONE]')));
  await tab.ask('silence');
  await tab.page.getByText('The model ended without an answer.').waitFor();
  await tab.picture('empty');
  assert.equal(await tab.questions().textContent(), 'silence');
  await tab.ask(say('words'));
  await tab.finished(1);
  assert.deepEqual(asked[1].messages, [{ role: 'user', content: say('words') }]);
  assert.equal(await tab.questions().count(), 2);
});

test('another name of the model is followed', async () => {
  await open(puppet);
  await tab.page.route('**/v1/models', (route) => route.fulfill({ json: { data: [{ id: 'successor', max_model_len: 99 }] } }));
  const { asked } = tab;
  await answersOf(
    (route) => refuse(route, 404, { message: "The model 'puppet' does not exist here.", code: 'model_not_found' }),
    (route) => stream(route, chunk({ content: 'Here.' }, 'stop'), event('[DONE]')));
  await tab.ask('x');
  await tab.answer().getByText('Here.').waitFor();
  assert.deepEqual(asked.map(({ model }) => model), ['puppet', 'successor']);
  assert.equal(await tab.page.locator('#model').textContent(), 'successor');
});

test('a question that is too long can be edited', async () => {
  await open(tiny);
  await tab.ask('word '.repeat(3000));
  await tab.page.getByRole('alert').getByText('maximum context length').waitFor();
  await tab.picture('too_long');
  await tab.button('Edit the question').click();
  assert.equal(await tab.page.getByLabel('Edit your question').inputValue(), 'word '.repeat(3000));
  await tab.page.getByLabel('Edit your question').fill('What is 2 + 3?');
  await tab.page.keyboard.press('Control+Enter');
  await tab.finished(0);
  assert.equal(await tab.questions().textContent(), 'What is 2 + 3?');
});

test('waiting says what is waited for', async () => {
  await open(puppet);
  let end;
  const ended = new Promise((resolve) => { end = resolve; });
  await answersOf(async (route) => {
    await ended;
    await stream(route, chunk({ content: 'There.' }, 'stop'), event('[DONE]'));
  });
  await tab.ask('x');
  await tab.page.getByText(/Waiting for the server, \d+ s\./).waitFor();
  await tab.picture('waiting');
  end();
  await tab.answer().getByText('There.').waitFor();
  assert.equal(await tab.page.locator('.waiting').count(), 0);
});

test('a wait shows the place in the queue, and how much of the prompt is read', async () => {
  const { createServer } = await import('node:http');
  let said;
  const asked = new Promise((resolve) => { said = resolve; });
  const server = createServer((request, response) => {
    if (!request.url.endsWith('/chat/completions')) {
      fetch(puppet.url + request.url).then(async (one) => {
        response.writeHead(one.status, Object.fromEntries(['content-type'].map((name) => [name, one.headers.get(name) ?? ''])));
        response.end(Buffer.from(await one.arrayBuffer()));
      });
      return;
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    said(response);
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  await open({ url: `http://127.0.0.1:${server.address().port}` });
  await tab.ask('x');
  const stream = await asked, line = tab.page.locator('.waiting'), bar = tab.page.getByRole('progressbar');
  stream.write(': waiting, 3 ahead\n\n');
  await tab.page.getByText(/In the server's queue: 3 ahead, \d+ s\./).waitFor();
  const height = () => tab.page.evaluate(() => document.querySelector('.waiting').offsetHeight); // in one step: it is often replaced
  const before = await height();
  stream.write(': prompt 8192 of 31000\n\n');
  await tab.page.getByText('Reading the prompt: 26 %').waitFor();
  assert.equal(await bar.getAttribute('aria-label'), 'Reading the prompt');
  assert.deepEqual(await bar.evaluate(({ value, max }) => [value, max]), [8192, 31000]);
  assert.equal(await height(), before, 'the layout does not jump');
  await tab.picture('reading');
  stream.write(': prompt 30999 of 31000\n\n');
  await tab.page.getByText('Reading the prompt: 99 %').waitFor();
  stream.end(chunk({ content: 'There.' }, 'stop') + event('[DONE]'));
  await tab.answer().getByText('There.').waitFor();
  assert.equal(await line.count() + await bar.count(), 0);
  await tab.close();
  tab = null;
  server.closeAllConnections();
  server.close();
});

test('a reader who scrolled up stays there, also at the end', async () => {
  await open(puppet, { viewport: { width: 800, height: 500 } });
  await tab.ask(say('line\n\n'.repeat(60)));
  await tab.finished(0);
  await tab.ask(say('line\n\n'.repeat(400)));
  await tab.answers().nth(1).locator('.answer p').nth(20).waitFor();
  await tab.page.locator('#scroll').evaluate(async (main) => {
    do { // a painting in the same frame would not know yet that somebody scrolled
      main.scrollTop = 100;
      await new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); });
    } while (main.scrollTop !== 100);
  });
  await tab.finished(1);
  assert.equal(await tab.page.locator('#scroll').evaluate((main) => main.scrollTop), 100);
  await tab.button('Go to the end ↓').click();
  assert.ok(await tab.page.locator('#scroll').evaluate((main) => main.scrollHeight - main.scrollTop - main.clientHeight < 2));
});
