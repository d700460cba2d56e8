// SPDX-License-Identifier: Apache-2.0
// Turns Markdown into DOM: CommonMark with tables, formulas as MathML, highlighted code. The text comes from a model and
// may be hostile. Three rules hold for all of it:
// - HTML is text, but for a few tags without attributes.
// - Every node was made by DOMPurify from a short list of tags and attributes, or by KaTeX without trust.
// - Source that is too long, too deep, or makes a library fail is shown as it is.
// KaTeX and Highlight.js are loaded when the first formula and the first code need them.
import { Lexer, Marked } from './vendor/marked.esm.js';
import './vendor/purify.min.js';

const purify = globalThis.DOMPurify;

export const blockMax = 1 << 15;    // characters of a block that is parsed; a longer one is shown as plain text
const marksMax = 1500;              // of emphasis, code, links and formulas in a paragraph
const formulaMax = 4000;
const definingFormulaMax = 400;     // of one with \def: the sum of its expansions stays small
const highlightMax = 1 << 16, highlightLineMax = 2000;

const plainTags = ['br', 'sub', 'sup', 'kbd', 'mark', 'u', 'ins', 'del', 'small'];
const purifyOptions = {
  ALLOWED_TAGS: [...plainTags, '#text', 'a', 'blockquote', 'code', 'div', 'em', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'li',
    'ol', 'p', 'pre', 'span', 'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'],
  ALLOWED_ATTR: ['align', 'class', 'href', 'rel', 'start', 'target', 'title'],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ADD_URI_SAFE_ATTR: ['align', 'rel', 'start', 'target'], // the pattern is for href alone
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escapeHtml = (text) => text.replace(/[&<>"']/g, (each) => escapes[each]);

// ---- formulas ----

let open = false; // while parsing: more text may follow, so a formula may lack its end

const ends = { '$$': '$$', '\\[': '\\]', '\\(': '\\)' };

// A formula that starts at the first character of `source`, up to a blank line at most: {raw, text, display}.
function formulaAt(source) {
  const start = source.slice(0, 2), end = ends[start];
  if (!end) {
    // One dollar: no blank inside at either end, and no digit behind. "$5 and $10" are prices.
    const found = /^\$((?=[^\s$])(?:\\[^\n]|[^\\$\n]){1,999})\$(?!\d)/.exec(source);
    return found && !/\s$/.test(found[1]) ? { raw: found[0], text: found[1], display: false } : undefined;
  }
  const near = source.slice(0, formulaMax + 4), blank = near.search(/\n[ \t]*\n/);
  const reach = blank < 0 ? near : near.slice(0, blank);
  const at = reach.indexOf(end, 2), display = start !== '\\(';
  if (at > 2) return { raw: reach.slice(0, at + 2), text: reach.slice(2, at), display };
  if (at < 0 && open && reach.length === source.length)
    return { raw: source, text: source.slice(2), display, unfinished: true };
  return undefined;
}

const renderFormula = ({ text, display, unfinished }) =>
  `<span class="tex${display ? ' display' : ''}${unfinished ? ' unfinished' : ''}">${escapeHtml(text)}</span>`;

const blockFormula = {
  name: 'blockFormula',
  level: 'block',
  start(source) {
    const near = source.slice(0, 2 * formulaMax), blank = near.indexOf('\n\n');
    const at = (blank < 0 ? near : near.slice(0, blank)).search(/\n {0,3}(?:\$\$|\\\[)/);
    return at < 0 ? undefined : at;
  },
  tokenizer(source) {
    const indent = /^ {0,3}(?=\$\$|\\\[)/.exec(source);
    const found = indent && formulaAt(source.slice(indent[0].length));
    if (!found) return undefined;
    const raw = indent[0] + found.raw, rest = /^[ \t]*([.,;:]?)[ \t]*(?:\n|$)/.exec(source.slice(raw.length));
    return rest ? { ...found, type: 'blockFormula', raw: raw + rest[0], text: found.text + rest[1] } : undefined;
  },
  renderer: (token) => `<p>${renderFormula(token)}</p>`,
};

const inlineFormula = {
  name: 'inlineFormula',
  level: 'inline',
  start(source) { // looks no further than it must: it is asked at every word
    const at = source.slice(0, 500).search(/\$|\\[([]/);
    return at >= 0 ? at : source.length > 500 ? 500 : undefined;
  },
  tokenizer(source) {
    const found = /^(?:\$|\\[([])/.test(source) && formulaAt(source);
    return found ? { ...found, type: 'inlineFormula' } : undefined;
  },
  renderer: renderFormula,
};

// ---- Markdown ----

const visible = (text) => text.replace(/[\p{Cf}\p{M}\s\u2800\u3164]/gu, '');

function linkTo(href, label, className = '') {
  let url;
  try { url = new URL(href); } catch { url = null; }
  if (!url || !['http:', 'https:', 'mailto:'].includes(url.protocol)) return undefined;
  return `<a${className} href="${escapeHtml(url.href)}" title="${escapeHtml(url.href)}" target="_blank" ` +
    `rel="noopener noreferrer">${label}</a>`;
}

const renderer = {
  html: ({ text }) => text,
  heading({ tokens, depth }) {
    const tag = `h${Math.min(6, depth + 1)}`; // the page has the h1
    return `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
  },
  code({ text, lang }) {
    const name = /^[\w+#.-]+/.exec(lang ?? '')?.[0] ?? '';
    return `<pre><code${name ? ` class="language-${escapeHtml(name)}"` : ''}>${escapeHtml(text)}</code></pre>`;
  },
  link({ href, tokens, text }) {
    const inside = this.parser.parseInline(tokens);
    return linkTo(href, visible(text) ? inside : escapeHtml(href)) ?? `${inside} (${escapeHtml(href)})`;
  },
  image({ href, text }) {
    const label = `Image: ${escapeHtml(visible(text) ? text : href)}`;
    return linkTo(href, label, ' class="image"') ?? label;
  },
  checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
};

const tokenizer = {
  html: () => undefined,
  tag(source) { // other tags are text
    const found = /^<(\/?)([a-z]+)\s?\/?>/i.exec(source), tag = found?.[2].toLowerCase();
    if (!plainTags.includes(tag)) return undefined;
    return { type: 'html', raw: found[0], text: `<${found[1]}${tag}>`, block: false };
  },
};

const marked = new Marked({ gfm: true, renderer, tokenizer, extensions: [blockFormula, inlineFormula] });

const tooDeep = /^[ \t]*(?:(?:>|(?:[-+*]|\d{1,9}[.)])[ \t])[ \t]*){24}|^[ \t]{120,}\S/m;

// Marked's time grows with the square of these in a paragraph.
const tooManyMarks = (source) => source.split(/\n[ \t]*\n/).some((piece) => (piece.match(/[*_~]+|[[\]]|`+|\$/g)?.length ?? 0) > marksMax);

const asText = (raw) => [{ type: 'plain', raw }];

// The blocks of a source. Their `raw` together are the source. `links` are the link definitions so far.
export function parse(source, links, mayGrow) {
  if (source.length > blockMax || tooDeep.test(source) || tooManyMarks(source)) return asText(source);
  open = mayGrow;
  try {
    const lexer = new Lexer(marked.defaults);
    Object.assign(lexer.tokens.links, links);
    const tokens = lexer.lex(source);
    return [...tokens];
  } catch {
    return asText(source);
  } finally {
    open = false;
  }
}

function plainParagraph(text) {
  const made = document.createElement('p');
  made.className = 'plain';
  made.textContent = text;
  return made;
}

// The nodes of one block.
export function build(token) {
  if (token.type === 'space' || token.type === 'def') return [];
  if (token.type !== 'plain') {
    try {
      const { childNodes } = purify.sanitize(marked.parser([token]), purifyOptions);
      return [...childNodes].filter((node) => node.nodeType === Node.ELEMENT_NODE || node.textContent.trim());
    } catch { /* too deep for the parser's stack */ }
  }
  return [plainParagraph(token.raw)];
}

// ---- libraries that come when they are needed ----

let katex, highlighter;
const loading = {};

function load(name, path, ready) {
  loading[name] ??= import(path).then(ready).catch(() => { delete loading[name]; }); // it is tried again
  return loading[name];
}

const loadKatex = () => load('katex', './vendor/katex.min.js', () => { katex = globalThis.katex; });
const loadHighlighter = () =>
  load('highlight', './vendor/highlight.min.js', (made) => { highlighter = made.default; });

function typeset(node) {
  const source = node.textContent, defines = /\\(?:[gex]?def|let|futurelet|(?:re|provide)?newcommand)/.test(source);
  if (source.length > (defines ? definingFormulaMax : formulaMax)) return;
  const made = document.createElement('span');
  try {
    katex.render(source, made, {
      output: 'mathml', trust: false, strict: 'ignore', throwOnError: true, maxSize: 20, maxExpand: 300,
      displayMode: node.classList.contains('display'),
    });
  } catch {
    return; // the source stays
  }
  if (made.querySelector('[mathsize] [mathsize]')) return; // sizes multiply
  node.replaceChildren(...made.childNodes);
  node.classList.add('set');
}

// Characters that have no width or turn the direction of the line: in code they are shown by their number, so that nobody
// copies what is not seen. Joiners (U+200C, U+200D) stay, which emoji and some scripts need.
const hidden = /[\u00AD\u180E\u200B\u200E\u200F\u202A-\u202E\u2060-\u2064\u2066-\u2069\uFEFF\u{E0000}-\u{E007F}]/gu;
export const showHidden = (text) =>
  text.replace(hidden, (each) => `⟨U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);

function colour(node) {
  const language = /^language-(.+)$/.exec(node.className)?.[1], text = node.textContent;
  if (!language || !highlighter.getLanguage(language) || text.length > highlightMax) return;
  if (text.split('\n').some((line) => line.length > highlightLineMax)) return;
  try {
    node.replaceChildren(purify.sanitize(highlighter.highlight(text, { language, ignoreIllegals: true }).value, purifyOptions));
  } catch { /* plain */ }
}

function frame(pre) {
  const code = pre.firstElementChild, made = document.createElement('div'), head = document.createElement('div');
  const name = document.createElement('span'), copy = document.createElement('button');
  made.className = 'code';
  head.className = 'code-head';
  name.textContent = /^language-(.+)$/.exec(code?.className ?? '')?.[1] ?? '';
  copy.type = 'button';
  copy.className = 'copy';
  copy.textContent = 'Copy';
  head.append(name, copy);
  pre.tabIndex = 0; // a long line is scrolled by keys, too
  pre.replaceWith(made);
  made.append(head, pre);
}

// Sets formulas and colours code below `root`. What is finished also gets its copy button. Calls `later(work)` if a library
// must be loaded first.
export function decorate(root, finished, later) {
  const codes = [...root.querySelectorAll('pre > code')];
  for (const table of root.querySelectorAll('table')) {
    const frame = document.createElement('div');
    frame.className = 'table';
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const code of codes) {
    if (hidden.test(code.textContent)) code.textContent = showHidden(code.textContent);
    hidden.lastIndex = 0;
    if (finished && !code.closest('.code')) frame(code.parentElement);
  }
  const formulas = [...root.querySelectorAll('.tex:not(.unfinished, .set)')];
  if (formulas.length) {
    if (katex) formulas.forEach(typeset);
    else loadKatex().then(() => { if (katex) later(() => formulas.forEach(typeset)); });
  }
  const named = codes.filter((code) => code.className);
  if (named.length) {
    if (highlighter) named.forEach(colour);
    else loadHighlighter().then(() => { if (highlighter) later(() => named.forEach(colour)); });
  }
}
