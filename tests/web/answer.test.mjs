// SPDX-License-Identifier: Apache-2.0
// Protects how the chat page shows answers: as Markdown, with formulas and code; while they grow; and hostile ones.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, beforeEach, afterEach, test } from 'node:test';
import { answerWith } from './lib/page.mjs';
import { Tab, copies, launch } from './lib/tab.mjs';
import { Server, root, same, sleep } from './lib/server.mjs';

let server, browser, page, strangers, complaints;

before(async () => {
  server = await Server.start(...same);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => { ({ page, strangers, complaints } = await Tab.open(browser, server.url)); });

afterEach(async () => {
  await page.context().close();
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});

// Shows `text` in an element .answer of its own, in pieces of `size` characters, each painted; `finished` is whether it
// ended. Returns its HTML when all libraries have come.
const show = (text, { size = text.length, finished = true } = {}) => page.evaluate(async ({ text, size, finished }) => {
  const { MarkdownText } = await import('./answer.js');
  const element = document.createElement('div');
  element.className = 'answer';
  document.getElementById('log').replaceChildren(element);
  document.getElementById('welcome').hidden = true;
  const shown = new MarkdownText(element, (work) => work());
  for (let i = 0; i < text.length; i += size) {
    shown.append(text.slice(i, i + size));
    if (i + size < text.length) shown.paint(false);
  }
  shown.paint(finished);
  await Promise.all([import('./vendor/katex.min.js'), import('./vendor/highlight.min.js')]); // after the page's own import
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
  await show('x\n\n```py\nif a:\n  b', { finished: false });
  assert.deepEqual([await words('pre'), await words('pre .hljs-keyword')], [['if a:'], ['if']]);
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
  await answerWith(page, 'Run:\n\n```sh\n# <b>\necho "a" && ls\n', '```\nDone');
  await page.locator('#question').fill('x');
  await page.keyboard.press('Enter');
  await copies(page.locator('.code button', { hasText: 'Copy' }));
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

// ---- hostile answers ----

test('the browser refuses HTML that DOMPurify has not made', async () => {
  const refused = await page.evaluate(() => {
    const element = document.createElement('p');
    try { element.innerHTML = '<b>x</b>'; } catch (error) { return error.name; }
    return element.innerHTML;
  });
  assert.equal(refused, 'TypeError');
  while (!complaints.length) await sleep(20);
  assert.match(complaints.splice(0).join(), /TrustedHTML|trusted-types/);
});

// Shows the text at once and in pieces, as `show` does, and returns what is on the page: names of elements, names of
// attributes, and the milliseconds that the longest painting took.
const showHostile = async (text, pieces = 4) => {
  const began = performance.now();
  await show(text, { size: Math.ceil(text.length / pieces) });
  const ms = performance.now() - began;
  return { ms, ...await answer().evaluate((element) => {
    const all = [...element.querySelectorAll('*')], depth = (node) => { let n = 0; while ((node = node.parentElement)) n++; return n; };
    return {
      elements: [...new Set(all.map((each) => each.localName))].sort(),
      attributes: [...new Set(all.flatMap((each) => each.getAttributeNames()))].sort(),
      count: all.length,
      depth: all.reduce((most, each) => Math.max(most, depth(each)), 0),
      letters: element.textContent.length,
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      tall: Math.max(0, ...all.map((each) => each.getBoundingClientRect().height)),
    };
  }) };
};

test('HTML, SVG and MathML of an answer are text, wherever they stand', async () => {
  const evil = ['<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<svg onload=alert(1)><circle/></svg>',
    '<iframe srcdoc="<script>alert(1)</script>"></iframe>', '<style>*{display:none}</style>', '<a href="javascript:alert(1)">x</a>',
    '<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>', '<form action=/v1/models><input name=a><button>x</button></form>',
    '<base href="https://evil.example/">', '<meta http-equiv=refresh content="0;url=https://evil.example/">', '<link rel=stylesheet href=x>',
    '<object data=x></object>', '<br onclick=alert(1)>', '<sub style="position:fixed">x</sub>', '<details open ontoggle=alert(1)>x',
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">', '<!--><img src=x onerror=alert(1)>-->', '<template><img src=x></template>',
    '<x id=log class=turn name=key>x</x>', '<p id="question">', '<![CDATA[<img src=x onerror=alert(1)>]]>'];
  let dialogs = 0;
  page.on('dialog', (dialog) => { dialogs++; dialog.dismiss(); });
  for (const html of evil)
    for (const text of [html, `a ${html} b`, `- ${html}`, `> ${html}`, `| ${html} |\n|---|\n| ${html} |`, `# ${html}`, `\`${html}\``,
      `[${html}](https://a.example)`, `![${html}](https://a.example)`, `$${html}$`, `\\[${html}\\]`, `\`\`\`html\n${html}\n\`\`\``,
      `\`\`\`"><img onerror=alert(1)>\n${html}\n\`\`\``, `<sub>\n${html}</sub>`, `[a](<${html}>)`, `[a](https://a.example "${html}")`]) {
      const { elements, attributes } = await showHostile(text, 3);
      for (const name of ['script', 'img', 'svg', 'iframe', 'style', 'form', 'input', 'base', 'meta', 'link', 'object', 'details', 'template', 'x'])
        assert.ok(!elements.includes(name), `${name} of ${text}`);
      for (const name of attributes)
        assert.ok(!name.startsWith('on') && !['id', 'name', 'style', 'src', 'action', 'srcdoc'].includes(name), `${name} of ${text}`);
      assert.equal(await answer().locator('a:not([href^="https://"])').count(), 0, text);
    }
  assert.equal(dialogs, 0);
});

test('formulas that would grow without end, load, link or fill the page stay small', async () => {
  const bombs = ['\\def\\a{\\a\\a}\\a', '\\def\\a{aaaaaaaaaa}\\def\\b{\\a\\a\\a\\a}\\def\\c{\\b\\b\\b\\b}\\def\\d{\\c\\c\\c\\c}\\d\\d\\d\\d',
    `\\def\\a{${'x'.repeat(3000)}}${'\\a'.repeat(300)}`, `\\newcommand{\\a}[1]{#1#1}${'\\a{'.repeat(60)}x${'}'.repeat(60)}`,
    '\\gdef\\frac{\\frac}\\frac12', '{'.repeat(1900) + '}'.repeat(1900), '\\sqrt{'.repeat(600) + '}'.repeat(600), '^'.repeat(3000),
    '\\left('.repeat(500), '\\begin{matrix}' + '&'.repeat(3000) + '\\end{matrix}', '\\rule{100000em}{100000em}', '\\kern{99999em}x',
    '\\raisebox{99999em}{x}', '\\href{javascript:alert(1)}{x}', '\\url{javascript:alert(1)}', '\\includegraphics{https://evil.example/a.png}',
    '\\htmlClass{turn}{x}', '\\htmlStyle{position: fixed}{x}', '\\htmlData{a=b}{x}', '\\htmlId{log}{x}', '\\text{<img src=x onerror=alert(1)>}',
    '\\unicode{x}', '\\Huge '.repeat(300) + 'x', '\\color{red;background:url(https://evil.example)}x'];
  for (const tex of bombs)
    for (const text of [`\\[${tex}\\]`, `a \\(${tex}\\) b`]) {
      const { count: nodes, elements, attributes, wide, tall } = await showHostile(text, 2);
      assert.ok(nodes < 20000, `${nodes} nodes of ${tex.slice(0, 60)}`);
      assert.ok(!elements.includes('a') && !elements.includes('img'), tex.slice(0, 60));
      assert.ok(!attributes.some((name) => ['style', 'id', 'href', 'src', 'data-a'].includes(name)), `${attributes} of ${tex.slice(0, 60)}`);
      assert.equal(wide, 0, `the page is wider by ${tex.slice(0, 60)}`);
      assert.ok(tall < 3000, `${tall} px of ${tex.slice(0, 60)}`);
    }
  await show('\\(x^2\\)'); // definitions of other formulas are gone
  assert.equal(await count('math msup'), 1);
});

test('a formula in a line that is wider than the page can be scrolled', async () => {
  await show(`a \\(${'x+'.repeat(300)}x\\) b`);
  const [seen, whole, room] = await answer().locator('.tex').evaluate((formula) =>
    [formula.clientWidth, formula.scrollWidth, formula.parentElement.clientWidth]);
  assert.ok(seen > 0 && seen <= room && whole > room, `${seen} of ${whole} px in ${room}`);
});

test('long lines and deep nesting are shown, as plain text where they must', async () => {
  const million = 1 << 20, hostile = {
    'a line of 1 MB': 'x'.repeat(million), 'words of 1 MB': 'word '.repeat(million / 5), 'a million stars': '*'.repeat(million),
    'stars and letters': '*a **b '.repeat(20000), brackets: '['.repeat(million), 'brackets that close': '[a]('.repeat(50000), ticks: '`a``b'.repeat(50000),
    'many dollars': '$a $$ '.repeat(30000), 'open formulas': '\\(a \\[b '.repeat(30000), tildes: '~a~~b'.repeat(30000), underscores: '_a__b '.repeat(30000), 'less than': '<a '.repeat(50000),
    'html comments': '<!-- '.repeat(50000), pipes: '|'.repeat(million), 'a wide table': `${'|a'.repeat(10000)}|\n${'|-'.repeat(10000)}|\n${'|b'.repeat(10000)}|`,
    'quotes 10,000 deep': '>'.repeat(10000) + ' a', 'quotes with blanks': '> '.repeat(10000) + 'a', 'lists 10,000 deep': '- '.repeat(10000) + 'a',
    'numbers 10,000 deep': '1. '.repeat(10000) + 'a', 'lists by indents': Array.from({ length: 1000 }, (_, i) => `${'  '.repeat(i)}- a`).join('\n'),
    'both by turns': '> - '.repeat(5000) + 'a', 'nested emphasis': '*a _b '.repeat(2000) + 'c' + '_ *'.repeat(2000), 'nested links': '['.repeat(5000) + 'a' + '](b)'.repeat(5000),
    'blank lines': '\n'.repeat(million), 'blanks': ' '.repeat(million), 'definitions': '[a]: https://a.example\n'.repeat(20000), 'code of 1 MB': `\`\`\`js\n${'x'.repeat(million)}\n\`\`\``,
    'a fence of 1 MB': '`'.repeat(million), 'hard breaks': 'a  \n'.repeat(50000), 'entities': '&amp;'.repeat(50000), 'addresses': 'http://a.b@c '.repeat(20000), 'a list of 10,000': '- a\n'.repeat(10000),
    'zero width': '\u200B'.repeat(100000), 'joiners': '\u200D'.repeat(100000), 'marks on one letter': `a${'\u0301'.repeat(100000)}`, 'turned around': `\u202E${'abc '.repeat(1000)}`,
    'a heading of setext lines': 'a\n='.repeat(20000), 'half surrogates': '\uD800'.repeat(1000) + 'a\0b',
  };
  let slowest = ['', 0];
  // What is longer than a block may be is not parsed, so each is also tried just below that.
  const short = Object.entries(hostile).map(([name, text]) => [`${name}, cut`, text.slice(0, 32000)]);
  for (const [name, text] of [...Object.entries(hostile), ...short]) {
    const { ms, depth, wide, letters, elements } = await showHostile(text);
    if (ms > slowest[1]) slowest = [name, ms];
    if (process.env.FATHOM_VERBOSE) console.log(`# ${name}: ${ms.toFixed(0)} ms, ${depth} deep, ${letters} letters`);
    assert.ok(depth < 300, `${depth} deep: ${name}`);
    assert.ok(wide <= 0, `${wide} px too wide: ${name}`);
    if (!/^(blank|definitions)/.test(name)) assert.ok(elements.length > 0, `nothing is shown: ${name}`);
  }
  console.log(`# the slowest was '${slowest[0]}' with ${slowest[1].toFixed(0)} ms`);
  assert.equal(await show('still **here**'), '<p>still <strong>here</strong></p>');
});

test('a letter has accents, but not thousands', async () => {
  const text = `e\u0301 ${'a' + '\u0301'.repeat(1000)} b`;
  for (const size of [1, 7, text.length]) assert.equal(await show(text, { size }), `<p>e\u0301 a${'\u0301'.repeat(24)} b</p>`);
});

test('code shows the characters that one does not see', async () => {
  await show('```sh\nls \u202E\u200B-la\u{E0041}\n```\n\n```\n👩\u200D💻\n```\n\n- `a`\n\n      b\u200Bc');
  assert.deepEqual(await words('pre'), ['ls ⟨U+202E⟩⟨U+200B⟩-la⟨U+E0041⟩', '👩\u200D💻', 'b⟨U+200B⟩c']);
});
