// SPDX-License-Identifier: Apache-2.0
// Protects the chat page in Firefox, driven over WebDriver BiDi: what one does with it every day works there, too.
// tests/web has the page's own tests, in Chromium.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import puppeteer from 'puppeteer-core';
import { deepseek } from '../web/lib/families.mjs';
import { Puppet, fail, repeat, say, weather } from '../web/lib/puppet.mjs';
import { patience } from '../web/lib/server.mjs';

const executablePath = process.env.FATHOM_FIREFOX ?? ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find(existsSync);
const sample = readFileSync(new URL('../web/lib/answer.txt', import.meta.url), 'utf8');
let server, browser, context, page, complaints;

before(async () => {
  server = await Puppet.start({ stepMs: 10 });
  browser = await puppeteer.launch({ browser: 'firefox', executablePath, headless: true, timeout: patience, protocolTimeout: patience });
  console.log(`# ${await browser.version()}`);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => {
  context = await browser.createBrowserContext();
  page = await context.newPage();
  page.setDefaultTimeout(patience);
  await page.setViewport({ width: 1000, height: 750 });
  complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
  await page.goto(`${server.url}/`);
  await ready();
});

afterEach(async () => {
  await context.close();
  assert.deepEqual(complaints, []);
});

const ready = () => page.waitForSelector('#examples button');
const texts = (selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent));
const click = (selector) => page.locator(selector).click();
const fill = (selector, text) => page.locator(selector).fill(text);
const finished = (count = 1) => page.waitForFunction((n) => document.querySelectorAll('#log .facts').length === n, {}, count);
const focused = (id) => page.waitForFunction((name) => document.activeElement.id === name, {}, id);
const textOf = (selector, text) => page.waitForFunction((where, what) =>
  [...document.querySelectorAll(where)].some((one) => one.textContent.includes(what)), {}, selector, text);

async function ask(text, count) {
  await fill('#question', text);
  await click('#send');
  await finished(count);
}

test('an answer streams, with tables, formulas and code', async () => {
  await fill('#question', say(sample));
  await click('#send');
  await page.waitForFunction(() => document.querySelector('.turn.busy .answer h2')?.textContent === 'Fast Fourier transform');
  await finished();
  await page.waitForFunction(() => document.querySelectorAll('#log .answer math').length === 6);
  await page.waitForFunction(() => document.querySelectorAll('#log .answer .hljs-keyword').length >= 3);
  assert.deepEqual(await texts('#log .answer th'), ['Algorithm', 'Cost', 'Note']);
  assert.equal((await texts('#log .answer pre')).length, 3);
  assert.ok((await texts('#log .answer'))[0].includes('<script>alert(1)</script>'));
  assert.deepEqual(await texts('#log .thinking'), []);
});

test('conversations and drafts survive a reload', async () => {
  await ask(say('one'));
  await ask(say('two'), 2);
  await fill('#question', 'half a tho');
  await page.reload();
  await ready();
  await textOf('#log .answer', 'two');
  assert.deepEqual(await texts('#log .mine .text'), [say('one'), say('two')]);
  assert.equal(await page.$eval('#question', (box) => box.value), 'half a tho');
  await click('#new-chat');
  await page.waitForFunction(() => !document.querySelector('#log article'));
  await click('#conversations .open');
  await textOf('#log .answer', 'two');
});

test('settings reach the server, and last', async () => {
  const asked = page.waitForRequest((request) => request.url().endsWith('/chat/completions'));
  await click('#settings-button');
  await fill('#max_tokens', '4');
  await page.select('#theme', 'dark');
  await click('#settings-close');
  await ask(repeat('on and '));
  await asked;
  await textOf('#log .facts', 'cut at the length limit');
  await page.reload();
  await ready();
  assert.equal(await page.$eval('#max_tokens', (box) => box.value), '4');
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(13, 21, 27)');
});

test('an answer is stopped, and goes on after a reload in its middle', async () => {
  await fill('#question', repeat('on and '));
  await click('#send');
  await textOf('#log .answer', 'on and');
  await click('#stop');
  await textOf('#log .facts', 'stopped');
  await click('#new-chat');
  await fill('#question', repeat('off and '));
  await click('#send');
  await textOf('#log .answer', 'off and');
  await page.reload();
  await textOf('#log .failure', 'This answer was not finished');
  await page.locator('#log .failure ::-p-text(Continue)').click();
  await page.waitForSelector('.turn.busy');
  await page.keyboard.press('Escape');
  await textOf('#log .facts', 'stopped');
});

test('the keyboard is enough', async () => {
  await focused('question');
  await page.keyboard.type(say('by keys'));
  await page.keyboard.press('Enter');
  await finished();
  await page.keyboard.press('ArrowUp');
  assert.equal(await page.$eval('#question', (box) => box.value), say('by keys'));
  await fill('#question', '');
  await page.waitForSelector('#conversations .open');
  await page.focus('#search');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.type('Renamed');
  await page.keyboard.press('Enter');
  await textOf('#conversations .open', 'Renamed');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Renamed');
  await page.focus('#question');
  await page.keyboard.type('a');
  await page.keyboard.down('Shift');
  await page.keyboard.press('Enter');
  await page.keyboard.up('Shift');
  await page.keyboard.type('b');
  assert.equal(await page.$eval('#question', (box) => box.value), 'a\nb');
});

test('a question is kept if the page is left as it is sent', async () => {
  await fill('#question', say('kept'));
  await Promise.all([page.waitForNavigation(), page.evaluate(() => {
    document.getElementById('composer').requestSubmit();
    location.reload();
  })]);
  await textOf('#log .failure', 'This answer was not finished');
  assert.deepEqual(await texts('#log .mine .text'), [say('kept')]);
});

test('the lines for tools open one at a time', async () => {
  await click('#connect-button');
  await page.waitForSelector('#connect details[open] pre');
  await page.locator('#connect summary ::-p-text(Codex)').click();
  await page.waitForFunction(() => [...document.querySelectorAll('#connect details[open] > summary')].map((one) => one.firstChild.textContent).join() === 'Codex');
  assert.equal((await texts('#connect-url'))[0], `${server.url}/v1`);
});

const labelled = (name) => page.locator(`[aria-label="${name}"]`);
const within = (width) => page.evaluate((most) => document.documentElement.scrollWidth <= most, width);

test('conversations are searched, deleted, brought back, and come in from a file', async () => {
  await ask(say('apples'));
  await click('#new-chat');
  await ask(say('pears'));
  await page.waitForFunction(() => document.querySelectorAll('#conversations .open').length === 2);
  await page.focus('#search');
  await page.keyboard.type('apples');
  await page.waitForFunction(() => document.querySelectorAll('#conversations .open').length === 1);
  for (let i = 0; i < 6; i++) await page.keyboard.press('Backspace');
  await page.waitForFunction(() => document.querySelectorAll('#conversations .open').length === 2);
  await page.$eval('#conversations [aria-label^="Delete"]', (one) => one.click()); // shown while the mouse is over it
  await page.waitForFunction(() => document.querySelectorAll('#conversations .open').length === 1);
  await page.locator('#notices ::-p-text(Undo)').click();
  await page.waitForFunction(() => document.querySelectorAll('#conversations .open').length === 2);
  const file = await page.$('#import-file');
  const folder = mkdtempSync(join(tmpdir(), 'fathom-firefox-'));
  try {
    writeFileSync(join(folder, 'talk.md'), '# Plums\n\n<!-- turn: question -->\n## Question\n\nplums?\n\n<!-- turn: answer -->\n## Answer\n\nplums.\n');
    await file.uploadFile(join(folder, 'talk.md'));
    await textOf('#conversations .open', 'Plums');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('an edited question and another answer are branches', async () => {
  await ask(say('one'));
  await page.locator('#log .mine ::-p-text(Edit)').click();
  await labelled('Edit your question').fill(say('two'));
  await page.locator('#log .edit .primary').click();
  await textOf('#log .answer', 'two');
  await textOf('#log .mine', '2/2');
  await page.locator('#log .mine ::-p-text(‹)').click();
  await textOf('#log .answer', 'one');
});

test('the result of a call is entered, and the answer goes on', async () => {
  await click('#settings-button');
  await fill('#tools', JSON.stringify(weather));
  await click('#settings-close');
  await fill('#question', say(deepseek.calls([['weather', { place: 'Bonn' }]])));
  await click('#send');
  await page.locator('#log form textarea').fill(say('Sun.'));
  await page.locator('::-p-text(Send the result)').click();
  await textOf('#log .answer', 'Sun.');
});

test('an engine that fails in mid-answer is shown as that, and the next answer comes', async () => {
  await fill('#question', fail('so far '));
  await click('#send');
  await textOf('#log .failure', 'The engine could not finish this answer');
  assert.equal((await texts('#log .answer'))[0].trim(), 'so far');
  await fill('#question', say('well'));
  await click('#send');
  await textOf('#log .answer', 'well');
});

test('a phone has room for everything', async () => {
  await page.setViewport({ width: 320, height: 640 });
  await ask(say(sample));
  assert.ok(await within(320));
  await click('#list-button');
  await page.waitForSelector('#conversations .open');
  assert.ok(await within(320));
});
