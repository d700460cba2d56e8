// SPDX-License-Identifier: Apache-2.0
// Protects the chat page, in a real browser: it streams, shows the thinking, stops, and talks to its own
// server only. With FATHOM_SCREENSHOTS=DIR it leaves pictures there.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, afterEach, test } from 'node:test';
import { Tab, launch, startProxy } from './lib/tab.mjs';
import { Server, same, slow } from './lib/server.mjs';

let server, browser, tab, page, answers, finished;

before(async () => {
  server = await Server.start(...same);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function open(options = {}, url = server.url) {
  tab = await Tab.open(browser, url, options);
  page = tab.page;
  answers = () => tab.answers();
  finished = (index) => tab.finished(index);
}

beforeEach(async () => { await open(); });
afterEach(async () => { await tab.close(); });

const chooseTheLikeliest = () => tab.chooseTheLikeliest();
const picture = (name) => tab.picture(name);

async function ask(text) {
  await tab.box().fill(text);
  await page.keyboard.press('Enter');
}

test('a question is typed, thought about and answered, on this server alone', async () => {
  await picture('welcome');
  assert.equal(await page.locator('#model').textContent(), 'tiny-r1');
  await chooseTheLikeliest();
  await ask('What is 4728 + 915?');
  await finished(0);
  assert.equal(await tab.questions().textContent(), 'What is 4728 + 915?');
  assert.equal(await answers().nth(0).locator('.answer').textContent(), '4728 + 915 = 5643');
  const thinking = answers().nth(0).locator('.thinking');
  assert.match(await thinking.locator('div').textContent(), /ones 8\+5\+0=13/);
  assert.match(await thinking.locator('summary').textContent(), /^Thought for \d/);
  assert.match(await answers().nth(0).locator('.facts').textContent(), /\d+ in, \d+ out/);
  await picture('answer');
  assert.deepEqual(tab.strangers, []);
  assert.deepEqual(tab.complaints, []);
});

test('a proxy may serve the page below a path of its own', async () => {
  const proxy = await startProxy(server.url, '/llm/');
  await tab.close();
  await open({}, proxy.url);
  assert.equal(await page.locator('#model').textContent(), 'tiny-r1');
  assert.ok(await page.locator('header img').evaluate((icon) => icon.complete && icon.naturalWidth > 0));
  await ask('What is 4728 + 915?');
  await finished(0);
  assert.deepEqual(tab.strangers, []);
  assert.deepEqual(tab.complaints, []);
  await page.goto('about:blank');
  await proxy.stop();
});

test('an answer that comes in one burst took what the server says', async () => {
  let receipt;
  const asked = tab.asking();
  await page.route('**/v1/chat/completions', async (route) => {
    const body = await (await server.post('/v1/chat/completions', await asked)).text(); // all of it
    const last = body.split('\n').findLast((line) => line.includes('"receipt"'));
    receipt = JSON.parse(last.slice('data: '.length)).receipt;
    await route.fulfill({ contentType: 'text/event-stream', body });
  });
  await chooseTheLikeliest();
  await ask('Tell me a story about a fox.');
  await finished(0);
  const { prompt, output, ms } = receipt;
  assert.ok(output > 1 && ms.total > ms.ttft, JSON.stringify(receipt));
  const speed = 1000 * (output - 1) / (ms.total - ms.ttft);
  assert.equal(await answers().nth(0).locator('.facts').textContent(),
    `${prompt.tokens} in, ${output} out · ${speed.toFixed(1)} tokens/s · first token after ${Math.round(ms.ttft)} ms`);
  assert.deepEqual(tab.complaints, []);
});

test('the thinking can be folded, and stays so', async () => {
  await chooseTheLikeliest();
  await ask('Who are you?');
  await finished(0);
  const thinking = answers().nth(0).locator('.thinking');
  assert.ok(await thinking.locator('div').isVisible());
  await thinking.locator('summary').click();
  assert.ok(!(await thinking.locator('div').isVisible()));
  await ask('Who are you?');
  await finished(1);
  assert.ok(!(await answers().nth(1).locator('.thinking div').isVisible()));
});

test('turns make one conversation, and a new chat begins another', async () => {
  const bodies = tab.asked;
  await chooseTheLikeliest();
  await ask('My name is Anna.');
  await finished(0);
  await ask('What is my name?');
  await finished(1);
  assert.match(await answers().nth(1).locator('.answer').textContent(), /Anna/);
  assert.deepEqual(bodies[1].messages.map((message) => message.role), ['user', 'assistant', 'user']);
  assert.equal(bodies[1].temperature, 0);
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await answers().count(), 0);
  assert.ok(await page.locator('#welcome').isVisible());
  await ask('Who are you?');
  await finished(0);
  assert.equal(bodies[2].messages.length, 1);
});

test('an example is asked by a click', async () => {
  await chooseTheLikeliest();
  await page.getByRole('button', { name: 'what is an otter' }).click();
  await finished(0);
  assert.match(await answers().nth(0).locator('.answer').textContent(), /otter/);
});

test('Enter sends, Shift+Enter does not', async () => {
  const box = tab.box();
  assert.ok(await page.getByRole('button', { name: 'Send' }).isDisabled());
  await box.pressSequentially('What is');
  await page.keyboard.press('Shift+Enter');
  await box.pressSequentially('2 + 2?');
  assert.equal(await box.inputValue(), 'What is\n2 + 2?');
  assert.equal(await answers().count(), 0);
  await page.keyboard.press('Enter');
  await finished(0);
  assert.equal(await box.inputValue(), '');
});

test('the stop button ends an answer on the page and on the server', async () => {
  const slowServer = await Server.start(...slow);
  await tab.close();
  await open({}, slowServer.url);
  const body = tab.asking();
  await page.route('**/v1/chat/completions', async (route) => {
    await route.continue({ postData: JSON.stringify({ ...await body, ignore_eos: true, max_tokens: 1900 }) });
  });
  await chooseTheLikeliest();
  await ask('Tell me a story about a fox.');
  await answers().nth(0).locator('.thinking').waitFor();
  await page.getByRole('button', { name: 'Stop the answer' }).click();
  await answers().nth(0).locator('.facts', { hasText: 'stopped' }).waitFor();
  assert.ok(await page.getByRole('button', { name: 'Send' }).isVisible());
  const metrics = await slowServer.quiet();
  assert.equal(metrics['fathom_kv_pages{state="held"}'], 0);
  assert.ok(metrics.fathom_requests_cancelled_total >= 1);
  await slowServer.stop();
});

test('a refusal is shown in words and can be tried again', async () => {
  let fails = true;
  await page.route('**/v1/chat/completions', async (route) => {
    if (!fails) return route.continue();
    return route.fulfill({
      status: 503, contentType: 'application/json',
      body: JSON.stringify({ error: { message: 'The queue is full.', type: 'server_error' } }),
    });
  });
  await chooseTheLikeliest();
  await ask('Who are you?');
  await page.getByRole('alert').waitFor();
  assert.match(await page.getByRole('alert').textContent(), /The queue is full\./);
  await picture('refusal');
  fails = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await finished(0);
  assert.match(await answers().nth(0).locator('.answer').textContent(), /tiny-r1/);
  assert.equal(await page.getByRole('alert').count(), 0);
});

test('markup in an answer stays text', async () => {
  await page.route('**/v1/chat/completions', (route) => route.fulfill({
    contentType: 'text/event-stream',
    body: ['<img src=x onerror=alert(1)> **b** `c`\n\n```\n<i>\n```'].map((content) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: 'stop' }] })}\n\n`)
      .join('') + 'data: [DONE]\n\n',
  }));
  await ask('x');
  const answer = answers().nth(0).locator('.answer');
  await answer.locator('pre').waitFor();
  assert.equal(await answer.locator('img, i').count(), 0);
  assert.equal(await answer.locator('strong').textContent(), 'b');
  assert.equal(await answer.locator('pre code').textContent(), '<i>');
});

test('a server with accounts is given a key', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fathom-'));
  const key = 'sk-of-a-test';
  const digits = createHash('sha256').update(key).digest('hex');
  writeFileSync(join(folder, 'accounts.yaml'), `accounts:\n  - {name: acme, keys: ["sha256:${digits}"]}\n`);
  const guarded = await Server.start(...same, '--accounts', join(folder, 'accounts.yaml'));
  try {
    await page.goto(guarded.url);
    const field = page.getByLabel('This server asks for an API key');
    await field.fill('sk-wrong');
    await page.keyboard.press('Enter');
    await page.getByText('The server does not know this key.').waitFor();
    await picture('key');
    await field.fill(key);
    await page.keyboard.press('Enter');
    await page.locator('#examples button').first().waitFor();
    assert.ok(!await field.isVisible());
    await page.reload();
    await page.locator('#examples button').first().waitFor(); // it is remembered
    await ask('What is 12 + 30?');
    await finished(0);
  } finally {
    await guarded.stop();
    rmSync(folder, { recursive: true });
  }
});

test('it fits a phone, in the dark too', async () => {
  await tab.close();
  await open({ viewport: { width: 360, height: 740 }, colorScheme: 'dark', hasTouch: true });
  await tab.ask('What is 12 + 30?'); // Enter breaks the line there
  await finished(0);
  const { wide, dark } = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    dark: getComputedStyle(document.body).backgroundColor,
  }));
  assert.ok(wide <= 360, `${wide} px wide`);
  assert.equal(dark, 'rgb(13, 21, 27)');
  for (const name of ['Send', 'New chat', 'Settings', 'Conversations'])
    assert.ok(await page.getByRole('button', { name }).isVisible());
  await picture('phone');
});
