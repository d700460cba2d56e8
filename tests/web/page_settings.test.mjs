// SPDX-License-Identifier: Apache-2.0
// Protects the chat page's settings and its ways in: what is chosen reaches the server, a key is kept no longer than
// asked, files become text, and the page works by keyboard, on small screens and in both colours.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { Server, same } from './lib/server.mjs';
import { Tab, launch, startProxy } from './lib/tab.mjs';

let server, browser, tab, page;

before(async () => {
  [server, browser] = await Promise.all([Server.start(...same), launch()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function open(options, url = server.url) {
  tab = await Tab.open(browser, url, options);
  page = tab.page;
}

beforeEach(() => open());
afterEach(() => tab.close());

// The body of the request that a question makes; the answer is made here.
async function bodyOf(question) {
  await page.route('**/v1/chat/completions', (route) => route.fulfill({ contentType: 'text/event-stream',
    body: `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'Yes.' }, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n` }));
  const [body] = await Promise.all([tab.asking(), tab.ask(question)]);
  await tab.answers().last().getByText('Yes.').waitFor();
  await page.unroute('**/v1/chat/completions');
  return body;
}

test('what is chosen reaches the server, and a default is left out', async () => {
  const plain = await bodyOf('x');
  assert.deepEqual(Object.keys(plain).sort(), ['messages', 'model', 'return_receipt', 'seed', 'stream']);
  await tab.button('Settings').click();
  const chosen = { temperature: '0.3', top_p: '0.9', top_k: '5', min_p: '0.1', frequency_penalty: '-1', presence_penalty: '1',
    seed: '7', max_tokens: '30' };
  for (const [name, value] of Object.entries(chosen)) await page.locator(`#${name}`).fill(value);
  await page.getByLabel('System prompt').fill('Be brief.');
  await page.getByLabel('Thinking').selectOption('On');
  await page.getByLabel('Effort').selectOption('high');
  await tab.picture('settings');
  await page.keyboard.press('Escape');
  await page.reload(); // they survive
  await tab.ready();
  const { messages, model, stream, return_receipt: _, ...rest } = await bodyOf('y');
  assert.deepEqual(rest, { temperature: 0.3, top_p: 0.9, top_k: 5, min_p: 0.1, frequency_penalty: -1, presence_penalty: 1, seed: 7,
    max_tokens: 30, thinking: { type: 'enabled' }, reasoning_effort: 'high' });
  assert.deepEqual(messages[0], { role: 'system', content: 'Be brief.' });
  await tab.button('Settings').click();
  await tab.button('All to their defaults').click();
  await page.locator('#max_tokens').fill('');
  await page.locator('#temperature').fill('9'); // out of range: not sent
  await page.keyboard.press('Escape');
  const body = await bodyOf('z');
  assert.ok(!('temperature' in body) && !('top_k' in body) && !('max_tokens' in body) && body.seed !== 7);
});

test('presets are system prompts by name', async () => {
  await tab.button('Settings').click();
  await page.getByLabel('System prompt').fill('Speak like a pirate.');
  await tab.button('Save as…').click();
  await page.getByLabel('Name of the preset').fill('Pirate');
  await page.keyboard.press('Enter');
  await page.getByLabel('System prompt').fill('');
  await page.reload();
  await tab.ready();
  await tab.button('Settings').click();
  await page.getByLabel('Presets').selectOption('Pirate');
  assert.equal(await page.getByLabel('System prompt').inputValue(), 'Speak like a pirate.');
  await page.locator('#preset-delete').click();
  assert.deepEqual(await page.locator('#preset option').allTextContents(), ['none yet']);
});

test('an answer has the form of a pasted schema', async () => {
  await tab.button('Settings').click();
  await page.locator('#schema').fill('{"type": ');
  await page.getByText(/^Not usable: /).waitFor();
  await page.keyboard.press('Escape');
  await tab.ask('Any number?');
  await page.getByText('The schema in the settings is not JSON').waitFor();
  assert.equal(await tab.box().inputValue(), 'Any number?'); // it is not lost
  await tab.set('#schema', '{"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"], "additionalProperties": false}');
  await tab.button('Send').click();
  await tab.finished(0);
  assert.equal(typeof JSON.parse(await tab.answer().textContent()).n, 'number');
});

test('a call of a pasted tool is seen', async () => {
  await tab.button('Settings').click();
  await page.locator('#tools').fill(JSON.stringify({ name: 'weather', parameters: { type: 'object',
    properties: { days: { type: 'integer', maximum: 9 } }, required: ['days'], additionalProperties: false } }));
  await page.getByLabel('One of them has to be called').check();
  await page.keyboard.press('Escape');
  await tab.ask('How is the weather?');
  await tab.finished(0);
  await page.getByText('calls weather').first().waitFor();
  assert.equal(typeof JSON.parse(await page.locator('.call code').first().textContent()).days, 'number');
  await tab.picture('call');
});

test('a key is kept for the tab, or in the browser if asked, and forgotten', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fathom-')), key = 'sk-of-a-test';
  writeFileSync(join(folder, 'accounts.yaml'),
    `accounts:\n  - {name: acme, keys: ["sha256:${createHash('sha256').update(key).digest('hex')}"]}\n`);
  const guarded = await Server.start(...same, '--accounts', join(folder, 'accounts.yaml'));
  const field = (where) => where.getByLabel('This server asks for an API key');
  const opened = async () => {
    const another = await page.context().newPage();
    await another.goto(guarded.url);
    return another;
  };
  try {
    await page.goto(guarded.url);
    await page.waitForFunction(() => document.activeElement.id === 'key');
    await page.keyboard.type(key);
    await tab.picture('key');
    await page.keyboard.press('Enter');
    await tab.ready();
    const second = await opened();
    await field(second).waitFor(); // the first one's is its own
    await field(second).fill(key);
    await second.getByLabel('Keep it in this browser').check();
    await second.keyboard.press('Enter');
    await second.locator('#examples button').first().waitFor();
    const third = await opened();
    await third.locator('#examples button').first().waitFor();
    await third.getByRole('button', { name: 'Settings' }).click();
    await third.getByText('A key is kept in this browser.').waitFor();
    await third.getByRole('button', { name: 'Forget' }).click();
    await third.getByText('This page has no key.').waitFor();
    assert.equal(await third.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]).includes('sk-of')), false);
    await field(await opened()).waitFor();
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'Change' }).click();
    await field(page).waitFor();
  } finally {
    await page.goto('about:blank');
    await guarded.stop();
    rmSync(folder, { recursive: true });
  }
});

test('files become text, and what is no text is refused', async () => {
  await tab.box().fill('Read this:');
  await page.evaluate(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(['a ``` b\n'], 'notes.txt'));
    transfer.items.add(new File([new Uint8Array([0, 255, 254])], 'photo.png'));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
  });
  await page.getByText('photo.png is not text in UTF-8').waitFor();
  await page.waitForFunction(() => document.getElementById('question').value === 'Read this:\n\nnotes.txt:\n````\na ``` b\n````\n');
  await page.locator('#attach-file').setInputFiles({ name: 'more.c', mimeType: 'text/plain', buffer: Buffer.from('int x;') });
  await page.waitForFunction(() => document.getElementById('question').value.endsWith('more.c:\n```\nint x;\n```\n'));
});

test('tokens are counted while one writes, and the button to send stays where it is', async () => {
  for (const width of [320, 1000]) {
    await page.setViewportSize({ width, height: 640 });
    const before = await tab.button('Send').boundingBox();
    await tab.box().pressSequentially('hello');
    await page.getByText('2 tokens of 2048').waitFor();
    assert.deepEqual(await tab.button('Send').boundingBox(), before);
    await tab.box().fill('');
  }
  await tab.box().fill('word '.repeat(3000));
  await page.locator('#tokens.bad').waitFor();
  await tab.box().fill('');
  await page.locator('#tokens:empty').waitFor({ state: 'attached' });
});

test('colours follow the system, or a choice that lasts', async () => {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await background(), 'rgb(247, 249, 251)');
  await tab.close();
  await open({ colorScheme: 'dark' });
  assert.equal(await background(), 'rgb(13, 21, 27)');
  await tab.button('Settings').click();
  await tab.picture('settings_dark');
  await page.getByLabel('Appearance').selectOption('Light');
  assert.equal(await background(), 'rgb(247, 249, 251)');
  await page.reload();
  await tab.ready();
  assert.equal(await background(), 'rgb(247, 249, 251)');
});

test('the keyboard is enough', async () => {
  await page.keyboard.type('What is 2 + 3?'); // the message has the focus
  await page.keyboard.press('Enter');
  await tab.finished(0);
  await page.keyboard.press('ArrowUp');
  assert.equal(await tab.box().inputValue(), 'What is 2 + 3?');
  await tab.box().fill('');
  await tab.items().first().waitFor();
  await page.getByLabel('Search conversations').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.type('By keys');
  await page.keyboard.press('Enter');
  await page.getByRole('navigation', { name: 'Conversations' }).getByRole('button', { name: 'By keys', exact: true }).waitFor();
  for (const role of ['banner', 'navigation', 'main']) assert.equal(await page.getByRole(role).count(), 1, role);
  assert.deepEqual(await page.locator('main').getByRole('heading', { level: 2 }).allTextContents(), ['You', 'Answer']);
});

test('a phone has room for everything, and Enter breaks the line', async () => {
  await tab.close();
  await open({ viewport: { width: 320, height: 640 }, colorScheme: 'dark', hasTouch: true, isMobile: true, reducedMotion: 'reduce' });
  await tab.box().pressSequentially('What is');
  await page.keyboard.press('Enter');
  await tab.box().pressSequentially('2 + 3?');
  assert.equal(await tab.box().inputValue(), 'What is\n2 + 3?');
  await tab.button('Send').click();
  await tab.finished(0);
  const fits = async (name) => {
    await tab.picture(name);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 320, name);
  };
  await fits('phone_320');
  await tab.button('Conversations').click();
  await tab.items().first().waitFor();
  await fits('phone_list');
  await tab.items().first().click();
  assert.ok(!await page.locator('#list').isVisible());
  await tab.button('Settings').click();
  await fits('phone_settings');
});

test('servers below different paths of one host keep apart', async () => {
  const proxy = await startProxy(server.url, ['/one/', '/two/']);
  await tab.close();
  await open({}, proxy.url);
  await bodyOf('of one');
  await tab.items().getByText('of one').waitFor(); // it is stored
  await page.goto(proxy.url.replace('/one', '/two/'));
  await tab.ready();
  await page.getByText('None yet.').waitFor();
  await page.goto(`${proxy.url}/`);
  await tab.items().getByText('of one').waitFor();
  await page.goto('about:blank');
  await proxy.stop();
});
