// SPDX-License-Identifier: Apache-2.0
// Protects how the chat page shows answers: as Markdown, with formulas and code; while they grow; and hostile ones.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, beforeEach, afterEach, test } from 'node:test';
import { answerWith, launchBrowser, openPage } from './lib/page.mjs';
import { Server, root, same } from './lib/server.mjs';

let server, browser, page, strangers, complaints;

before(async () => {
  server = await Server.start(...same);
  browser = await launchBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => { ({ page, strangers, complaints } = await openPage(browser, server.url)); });

afterEach(async () => {
  await page.context().close();
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});

// Shows `text` in an element .answer of its own, in pieces of `size` characters, each painted; `finished` is whether it
// ended. Returns its HTML when all libraries have come.
const show = (text, { size = text.length, finished = true } = {}) => page.evaluate(async ({ text, size, finished }) => {
  const { MarkdownText } = await import('./answer.js');
  await Promise.all([import('./vendor/katex.min.js'), import('./vendor/highlight.min.js')]);
  const element = document.createElement('div'), late = [];
  element.className = 'answer';
  document.getElementById('log').replaceChildren(element);
  document.getElementById('welcome').hidden = true;
  const shown = new MarkdownText(element, (work) => late.push(work()));
  for (let i = 0; i < text.length; i += size) {
    shown.append(text.slice(i, i + size));
    if (i + size < text.length) shown.paint(false);
  }
  shown.paint(finished);
  await new Promise((done) => { setTimeout(done, 0); });
  return element.innerHTML;
}, { text, size: Math.max(1, size), finished });

const answer = () => page.locator('#log .answer');
const count = (selector) => answer().locator(selector).count();
const words = (selector) => answer().locator(selector).allTextContents();

const sample = readFileSync(new URL('lib/answer.txt', import.meta.url), 'utf8');

test('an answer is Markdown, with tables, formulas and code', async () => {
  await show(sample);
  assert.deepEqual(await words('h2'), ['Fast Fourier transform']);
  assert.deepEqual(await words('strong'), ['linear', 'Split']);
  assert.equal(await count('ol > li'), 3);
  assert.equal(await count('ol > li ul > li'), 2);
  assert.deepEqual(await words('th'), ['Algorithm', 'Cost', 'Note']);
  assert.equal(await count('td[align=right]'), 2);
  assert.equal(await count('math'), 6);
  assert.equal(await count('math[display=block]'), 2);
  assert.equal(await count('pre'), 3);
  assert.deepEqual(await words('.code-head span'), ['c', 'python', 'md']);
  assert.ok(await count('.hljs-keyword') >= 3);
  assert.deepEqual(await words('pre:has(.language-md)'), ['```py\nnested\n```']);
  const text = await answer().textContent();
  for (const piece of ['costs $5 and $10,', '2 ** 3 ** 4 = 2 ** 3 ** 4.', '☑ done', '☐ not done', '<script>alert(1)</script>'])
    assert.ok(text.includes(piece), piece);
});

test('an answer that comes letter by letter ends as one that comes at once', async () => {
  const plain = (html) => html.replace(/<\/?p>|\s+/g, ''); // of a loose list, the first items were tight
  for (const text of [sample, 'a\n- b\n\n  c\n* d\n\n\n1. e\n2. f\n\n3) g', 'a\n-\nb\n---\n\n| a | b |\n|-|-|\n| c |\n\nd', '~~~\na\n~~~~\nb\n\n    c',
    'x\n```\ny\n```\nz\n\n- a\n  ```js\n  1\n  ```\n- b', '[a][1] and\n\n- [b][1]\n- c\n\n[1]: https://a.example/'])
    for (const size of [1, 7]) assert.equal(plain(await show(text, { size })), plain(await show(text)), text.slice(0, 60));
});

test('finished blocks stay: only the last one is made again', async () => {
  const kept = await page.evaluate(async () => {
    const { MarkdownText } = await import('./answer.js');
    const element = document.createElement('div'), shown = new MarkdownText(element, () => {});
    for (const text of ['# a\n\nb\n\n- c\n- d\n', '- e\n']) {
      shown.append(text);
      shown.paint(false);
    }
    const nodes = [...element.querySelectorAll('h2, p, li:nth-child(-n+2)')];
    for (let i = 0; i < 50; i++) {
      shown.append(`\n\nparagraph ${i}\n`);
      shown.paint(false);
    }
    return { count: nodes.length, stay: nodes.every((node) => element.contains(node)), rest: shown.source.length };
  });
  assert.deepEqual(kept, { count: 4, stay: true, rest: 'paragraph 49\n'.length });
});

test('half a table, half a fence, half a formula and half a word in bold are shown as what they become', async () => {
  for (const half of ['| a | b |', '| a | b |\n|', '| a | b |\n|--', '| a | b |\n|---|---|\n| 1'])
    assert.match(await show(`x\n\n${half}`, { size: 1, finished: false }), /<th>a<\/th>\s*<th>b<\/th>/, half);
  assert.equal(await show('x\n\n``', { finished: false }), '<p>x</p>');
  assert.match(await show('x\n\n```py\nif a:\n', { finished: false }), /<code class="language-py">if a:/);
  assert.match(await show('so \\(a_1 * b_1 * c', { finished: false }), /<span class="tex unfinished">a_1 \* b_1 \* c<\/span>/);
  assert.match(await show('so\n\n\\[\na_1\n- b', { finished: false }), /<span class="tex display unfinished">\na_1\n- b<\/span>/);
  assert.equal(await show('a **b', { finished: false }), '<p>a <strong>b</strong></p>');
  assert.equal(await show('a [b](https://c.exam', { finished: false }), '<p>a b</p>');
  assert.equal(await show('2 ** 3 ** 4', { finished: false }), '<p>2 ** 3 ** 4</p>');
  // What never ends is text.
  assert.equal(await show('a **b'), '<p>a **b</p>');
  assert.equal(await show('| a | b |'), '<p>| a | b |</p>');
});

test('code is copied to the last letter', async () => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answerWith(page, 'Run:\n\n```sh\n# <b>\necho "a" && ls\n', '```\nDone');
  await page.getByLabel('Your message').fill('x');
  await page.keyboard.press('Enter');
  await page.locator('.code button', { hasText: 'Copy' }).click();
  await page.locator('.code button', { hasText: 'Copied' }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), '# <b>\necho "a" && ls');
});

test('links lead to other pages only, which learn nothing; images are links', async () => {
  await show('[a](https://a.example/?q=1) <https://b.example/> https://c.example/d. a@b.example ![cat](https://a.example/cat.png)\n' +
    '[e](javascript:alert(1)) [f](data:text/html,x) [g](/v1/models) [h](JaVaScRiPt&colon;alert(1)) ' +
    '![i](data:image/png;base64,AA) [\u200B](https://hidden.example/) [j](https://k.example/ "\\" onclick=\\"alert(1)")');
  const links = await answer().locator('a').evaluateAll((found) => found.map((a) => [a.href, a.rel, a.target, a.textContent]));
  assert.deepEqual(links.map(([href]) => href), ['https://a.example/?q=1', 'https://b.example/', 'https://c.example/d',
    'mailto:a@b.example', 'https://a.example/cat.png', 'https://hidden.example/', 'https://k.example/']);
  for (const [, rel, target] of links) assert.deepEqual([rel, target], ['noopener noreferrer', '_blank']);
  assert.equal(links[5][3], 'https://hidden.example/'); // its text is invisible
  assert.equal(await count('img, [onclick]'), 0);
});

test('the libraries are those of the manifest, and the first load is small', async () => {
  const folder = `${root}src/web/vendor`, known = JSON.parse(readFileSync(`${folder}/manifest.json`, 'utf8'));
  const files = Object.values(known).flatMap((each) => Object.entries(each.files));
  for (const [file, { sha256 }] of files)
    assert.equal(createHash('sha256').update(readFileSync(`${folder}/${file}`)).digest('hex'), sha256, file);
  assert.deepEqual(readdirSync(folder).sort(), [...files.map(([file]) => file), 'LICENSES', 'manifest.json'].sort());
  const licences = readFileSync(`${folder}/LICENSES`, 'utf8').toLowerCase();
  for (const [name, { version }] of Object.entries(known))
    assert.match(licences, new RegExp(`${name.replace('@highlightjs/cdn-assets', 'highlight.js')} ${version}`));
  const loaded = await page.evaluate(() => performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))
    .map(({ name, decodedBodySize }) => [new URL(name).pathname, decodedBodySize]));
  const bytes = loaded.reduce((sum, [, size]) => sum + size, 0);
  console.log(`# the page's first load is ${bytes} bytes`);
  assert.ok(bytes < 250000, JSON.stringify(loaded));
  assert.ok(!loaded.some(([path]) => /katex|highlight/.test(path)), 'KaTeX and Highlight.js come when they are needed');
});
