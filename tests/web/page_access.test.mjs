// SPDX-License-Identifier: Apache-2.0
// Protects readers who use a screen reader, a keyboard or strong contrast: axe finds nothing on the chat page, in the
// light and in the dark, in each of its states.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import axe from 'axe-core';
import { answerWith } from './lib/page.mjs';
import { deepseek } from './lib/families.mjs';
import { Puppet, fail, repeat, say, weather } from './lib/puppet.mjs';
import { Tab, launch } from './lib/tab.mjs';

const key = 'sk-of-a-test', phone = { viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true };
const sample = readFileSync(new URL('lib/answer.txt', import.meta.url), 'utf8');
let server, guarded, browser, tab;

before(async () => {
  [server, guarded, browser] = await Promise.all([Puppet.start({ stepMs: 10 }), Puppet.start({ accounts: [{ name: 'reader', key }] }), launch({ reducedMotion: 'reduce' })]);
});

after(async () => {
  await browser?.close();
  await Promise.all([server?.stop(), guarded?.stop()]);
});

afterEach(() => tab.close());

const open = async (options = {}, init) => { tab = await Tab.open(browser, server.url, options, init); };

// Colours are all that the dark changes.
async function check(name) {
  await tab.page.evaluate(axe.source);
  for (const [colorScheme, options] of [['light', {}], ['dark', { runOnly: ['color-contrast'] }]]) {
    await tab.page.evaluate((theme) => { document.documentElement.dataset.theme = theme; }, colorScheme);
    const found = await tab.page.evaluate((given) => globalThis.axe.run(document, { resultTypes: ['violations'], ...given })
      .then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.map(({ html, any }) => [html.slice(0, 150), any[0]?.message])])), options);
    await tab.picture(`access_${name}_${colorScheme}`);
    assert.deepEqual(found, [], `${name}, ${colorScheme}`);
  }
}

const refuse = (status, error) => tab.page.route('**/v1/chat/completions', (route) => route.fulfill({ status,
  headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ error }) }));

test('the empty page, and its list', async () => {
  await open();
  await check('empty');
});

test('a long answer, with tables, formulas and code', async () => {
  await open();
  await answerWith(tab.page, sample);
  await tab.ask('Explain the FFT.');
  await tab.answer().locator('math').first().waitFor();
  await tab.answer().locator('.hljs-keyword').first().waitFor();
  await check('long');
});

test('an answer that comes, and one that was stopped', async () => {
  await open();
  await tab.ask(repeat('word '));
  await tab.answer().getByText('word').waitFor();
  await check('busy');
  await tab.button('Stop the answer').click();
  await tab.page.getByText('stopped').waitFor();
  await check('stopped');
});

test('branches, and a question that is edited', async () => {
  await open();
  await tab.ask(say('one'));
  await tab.finished(0);
  await tab.button('Regenerate').click();
  await tab.page.getByText('2/2').waitFor();
  await check('branches');
  await tab.button('Edit').click();
  await check('edit');
});

test('the settings, with something wrong in them', async () => {
  await open();
  await tab.button('Settings').click();
  await tab.page.locator('#schema').fill('{');
  await tab.button('Save as…').click();
  await check('settings');
});

test('the lines for tools', async () => {
  await open();
  await tab.button('Use it from your tools').click();
  await tab.page.locator('#connect .hljs-string').first().waitFor();
  for (const name of ['Codex', 'opencode', 'Python']) {
    await tab.page.locator('#connect summary', { hasText: name }).click();
    await check(`connect_${name}`);
  }
});

test('a call and the fields for its result', async () => {
  await open();
  await tab.set('#tools', JSON.stringify(weather));
  await tab.ask(say(deepseek.calls([['weather', { place: 'Bonn' }]])));
  await tab.page.getByLabel('Result of weather').fill(say('Sun.'));
  await check('call');
  await tab.button('Send the result').click();
  await tab.finished(1);
  await check('result');
});

test('a phone, with its list and the settings', async () => {
  await open(phone);
  const before = await tab.button('Send').boundingBox();
  await tab.box().fill(say('one'));
  await tab.page.locator('#tokens:not(:empty)').waitFor();
  assert.deepEqual(await tab.button('Send').boundingBox(), before); // a finger on its way finds it
  await tab.ask(say('one'));
  await tab.finished(0);
  await check('phone');
  await tab.button('Conversations').click();
  await tab.items().first().waitFor();
  await check('phone_list');
  await tab.items().first().click();
  await tab.button('Settings').click();
  await check('phone_settings');
  await tab.page.keyboard.press('Escape');
  await tab.button('Use it from your tools').click();
  await tab.page.locator('#connect .hljs-string').first().waitFor();
  await check('phone_connect');
});

test('a server that asks for a key, and does not know it', async () => {
  tab = await Tab.open(browser, server.url);
  await tab.page.goto(guarded.url);
  await tab.page.getByLabel('This server asks for an API key').fill('sk-wrong');
  await tab.page.keyboard.press('Enter');
  await tab.page.getByText('The server does not know this key.').waitFor();
  await check('key');
});

for (const [name, status, error, text] of [
  ['refusal', 503, { message: 'The model is not there.' }, 'The model is not there.'],
  ['too long', 400, { message: 'The question has 9 tokens too many.', code: 'context_length_exceeded' }, '9 tokens too many'],
  ['waiting', 429, { message: 'The queue is full.', code: 'queue_full' }, 'The queue is full.'],
]) {
  test(`an error: ${name}`, async () => {
    await open();
    await refuse(status, error);
    await tab.ask('x');
    await tab.page.getByText(text).waitFor();
    await check(name.replace(' ', '_'));
  });
}

test('an error: the engine fails', async () => {
  await open();
  await tab.ask(fail('so far '));
  await tab.page.getByText('The engine could not finish this answer').waitFor();
  await check('failed');
});

test('an error: an answer without a text', async () => {
  await open();
  await answerWith(tab.page, '');
  await tab.ask('x');
  await tab.page.getByText('The model ended without an answer.').waitFor();
  await check('silent');
});

test('lines above the message: a full storage, files that are refused', async () => {
  await open({}, () => {
    const put = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = function (...values) {
      if (globalThis.isFull) throw new DOMException('full', 'QuotaExceededError');
      return put.apply(this, values);
    };
  });
  await tab.ask(say('one'));
  await tab.finished(0);
  await tab.page.locator('#attach-file').setInputFiles({ name: 'photo.png', mimeType: 'image/png', buffer: Buffer.from([0, 255]) });
  await tab.page.locator('#import-file').setInputFiles({ name: 'other.json', mimeType: 'application/json', buffer: Buffer.from('{}') });
  await tab.page.getByText('but not of conversations').waitFor();
  await tab.page.evaluate(() => { globalThis.isFull = true; });
  await tab.ask(say('two'));
  await tab.page.getByText('The browser cannot store').waitFor();
  await tab.finished(1);
  await check('notices');
});
