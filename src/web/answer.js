// SPDX-License-Identifier: Apache-2.0
// Shows text that grows: create(element) returns {append(text), end()}. Only the last block is parsed again; finished
// blocks stay as they are, with what a reader has selected in them. The next painting waits nine times as long as the
// last one took, so that the page is idle for most of the time however long an answer is.
import { copyBy } from './dom.js';
import { blockMax, build, decorate, parse, showHidden } from './markdown.js';

const paintMsMin = 50, restPerWork = 9;
const liveMax = 1 << 13; // characters of code that is coloured while it grows; all of it is at the end

// Calls paint(finished) some time after each request(), and at once by end(). `around` gets each painting as a function.
class Painter {
  constructor(paint, around) {
    this.paint = paint;
    this.around = around;
    this.timer = 0;
    this.rest = 0;
  }

  request() {
    this.timer ||= setTimeout(() => this.run(false), this.rest);
  }

  run(finished) {
    clearTimeout(this.timer);
    this.timer = 0;
    const began = performance.now();
    this.around(() => this.paint(finished));
    this.rest = Math.max(paintMsMin, restPerWork * (performance.now() - began));
  }
}

// A letter keeps this many accents: with thousands, a browser lays out one line for seconds. Languages need fewer than ten.
const accentsMax = 24, tooManyAccents = new RegExp(`(\\p{M}{${accentsMax}})\\p{M}+`, 'gu');

class Accents {
  constructor() { this.last = ''; } // those at the end of the text so far

  limit(text) {
    const kept = (this.last + text).replace(tooManyAccents, '$1');
    const fresh = kept.slice(this.last.length);
    this.last = /\p{M}*$/u.exec(kept)[0];
    return fresh;
  }
}

// ---- plain text ----

class PlainText {
  constructor(element) {
    this.element = element;
    this.fresh = '';
    this.line = null;
    this.accents = new Accents();
  }

  append(text) { this.fresh += this.accents.limit(text); }

  // A line is an element of its own: a browser lays out only the last one again.
  paint() {
    for (const piece of this.fresh.match(/[^\n]*\n|[^\n]+/g) ?? []) {
      if (!this.line) {
        this.line = document.createElement('span');
        this.line.className = 'line';
        this.element.append(this.line);
      }
      this.line.append(piece);
      if (piece.endsWith('\n')) this.line = null;
    }
    this.fresh = '';
  }
}

// ---- a block that is not finished ----

// The end of a source as it will likely go on, so that half a table is a table, and half a word in bold is bold.
export function mend(source) {
  const cut = Math.max(0, source.length - 2000), start = source.slice(0, cut);
  let end = source.slice(cut);
  // A line that may become a heading, a fence, a rule or an item is not shown before it is one.
  end = end.replace(/(^|\n)[ \t]*(?:[-=*_+~`#>]+|\d{1,3}[.)]?)[ \t]*$/, '$1');
  const head = /(?:^|\n)( {0,3}\|[^\n]*\|[^\n]*)(\n[ |:-]*)?$/.exec(end);
  if (head && !/(?:^|\n) {0,3}\|[^\n]*$/.test(end.slice(0, head.index))) {
    const cells = head[1].trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).length;
    return `${start}${end.slice(0, end.length - (head[2] ?? '').length)}\n|${'---|'.repeat(cells)}`;
  }
  end = end.replace(/!?\[([^[\]\n]*)\]\([^()\s]*$/, '$1');
  const words = end.slice(end.lastIndexOf('\n\n') + 1).replace(/`[^`]*`/g, '');
  if (words.includes('`')) return start + end + (end.endsWith('`') ? '' : '`');
  const bold = /(^|[\s(["'|])\*\*([^*]*)$/.exec(words);
  if (!bold) return start + end;
  return bold[2] ? start + end + (/^\s/.test(bold[2]) ? '' : '**') : start + end.slice(0, -2);
}

// ---- Markdown ----

const fenceStart = /^(`{3,})([^`\n]*)\n|^(~{3,})([^\n]*)\n/;

export class MarkdownText {
  constructor(element, later) {
    this.element = element;
    this.later = later;
    this.accents = new Accents();
    this.source = '';   // what is not finished, from the start of a block
    this.links = {};    // definitions: [label]: address
    this.unlinked = []; // {raw, nodes}: finished blocks with brackets, which a later definition may turn into links
    this.tail = [];     // nodes of `source`
    this.list = null;   // {mark, node}: finished items of the list that `source` begins with
    this.fence = null;  // code between fences
    this.plain = null;  // a block that is too long, up to a blank line
  }

  append(text) { this.source += this.accents.limit(text.replaceAll('\r', '')); }

  paint(finished) {
    for (const node of this.tail) node.remove();
    this.tail = [];
    while (this.source || this.fence) {
      if (!(this.fence ? this.takeCode(finished) : this.plain ? this.takePlain(finished) : this.takeBlocks(finished))) return;
    }
  }

  // ---- code between fences, at the start of a line: each line is read once ----

  openFence() {
    const found = fenceStart.exec(this.source);
    const [marks, name] = found[1] ? [found[1], found[2]] : [found[3], found[4]];
    const holder = this.made({ type: 'code', raw: '', text: '', lang: name.trim() }, true), node = holder.firstChild;
    this.list = null;
    this.source = this.source.slice(found[0].length);
    this.element.append(node);
    const close = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}[ \\t]*$`);
    this.fence = { close, node, code: node.querySelector('code'), lines: 0, letters: 0 };
  }

  takeCode(finished) {
    const { close, code, node } = this.fence;
    let fresh = '', ended = false;
    while (this.source && !ended) {
      const end = this.source.indexOf('\n');
      if (end < 0 && !finished) break;
      const line = end < 0 ? this.source : this.source.slice(0, end);
      this.source = end < 0 ? '' : this.source.slice(end + 1);
      ended = close.test(line);
      if (!ended) {
        fresh += (this.fence.lines++ ? '\n' : '') + showHidden(line);
      }
    }
    if (fresh) code.append(fresh);
    this.fence.letters += fresh.length;
    ended ||= finished;
    if (ended || this.fence.letters < liveMax) decorate(node, true, this.later);
    if (ended) this.fence = null;
    return ended;
  }

  // ---- a block that is too long to be parsed ----

  takePlain(finished) {
    const end = this.source.indexOf('\n\n');
    const ended = end >= 0, keep = this.source.endsWith('\n') && !finished ? 1 : 0;
    const text = ended ? this.source.slice(0, end) : this.source.slice(0, this.source.length - keep);
    this.plain.append(text);
    this.source = this.source.slice(text.length);
    if (ended) this.plain = null;
    return ended;
  }

  // ---- all other blocks ----

  // What is parsed at once: up to the next fence, and not more than a block may have.
  window() {
    if (fenceStart.test(this.source)) return { text: '', whole: true };
    const fence = /\n(?:`{3,}[^`\n]*|~{3,}[^\n]*)\n/.exec(this.source);
    const text = fence ? this.source.slice(0, fence.index + 1) : this.source;
    if (text.length <= blockMax) return { text, whole: Boolean(fence) };
    const blank = text.lastIndexOf('\n\n', blockMax - 2), line = text.lastIndexOf('\n', blockMax - 1);
    return { text: text.slice(0, blank > 0 ? blank + 2 : line + 1), whole: false, more: true }; // '': a line is too long
  }

  takeBlocks(finished) {
    this.source = this.source.replace(/^(?:[ \t]*\n)+/, '');
    if (!this.source) return false;
    const { text, whole, more } = this.window();
    if (!text && whole) {
      this.openFence();
      return true;
    }
    if (!text) {
      const [node] = build({ type: 'plain', raw: '' });
      this.element.append(node);
      this.plain = node;
      this.list = null;
      return true;
    }
    const all = whole || (finished && !more);
    const tokens = parse(text, this.links, !all);
    const kept = all ? text.length : this.firstUnfinished(tokens, text, more);
    if (more && kept === 0) { // one block, and longer than a block may be
      this.plain = build({ type: 'plain', raw: '' })[0];
      this.element.append(this.plain);
      return true;
    }
    let at = 0;
    for (const token of tokens) {
      if (at + token.raw.length <= kept) this.place(token, true);
      else if (at < kept)
        this.place({ ...token, raw: token.raw.slice(0, kept - at), items: itemsBefore(token, kept - at) }, true);
      at += token.raw.length;
    }
    this.source = this.source.slice(kept);
    if (all || more) return true;
    for (const token of parse(mend(this.source), this.links, true)) this.place(token, false);
    return false;
  }

  // The place in `text` up to which nothing can change any more. The last block can, and one before a last line that may
  // not be whole. Of a list only the last item can.
  firstUnfinished(tokens, text, more) {
    const lastLine = more ? text.length : text.lastIndexOf('\n') + 1;
    const places = [0];
    let at = 0;
    for (const token of tokens) {
      if (token.type !== 'space') places.push(at);
      const last = token === tokens.findLast((each) => each.type !== 'space');
      if (last && token.type === 'list') {
        let inside = at;
        for (const item of token.items) {
          places.push(inside);
          inside += item.raw.length;
        }
      }
      at += token.raw.length;
    }
    return places.findLast((place) => place < lastLine) ?? 0;
  }

  made(token, finished) {
    const holder = document.createElement('div');
    holder.append(...build(token));
    decorate(holder, finished, this.later);
    return holder;
  }

  place(token, finished) {
    if (finished && token.type === 'def') this.define(token);
    const holder = this.made(token, finished), first = holder.firstChild;
    if (!first) return;
    let nodes = [...holder.childNodes], parent = this.element;
    if (token.type === 'list') {
      const mark = /^\s*(?:[-+*]|\d+[.)])/.exec(token.raw)?.[0].trim().at(-1);
      nodes = [...first.children];
      parent = this.list?.mark === mark ? this.list.node : first.cloneNode(false);
      if (parent !== this.list?.node) {
        this.element.append(parent);
        if (finished) this.list = { mark, node: parent };
        else this.tail.push(parent);
      }
    } else if (finished) {
      this.list = null;
    }
    parent.append(...nodes);
    if (!finished) this.tail.push(...nodes);
    else if (token.raw.includes(']')) this.unlinked.push({ raw: token.raw, nodes });
  }

  define({ tag, href, title }) {
    if (Object.hasOwn(this.links, tag)) return;
    this.links[tag] = { href, title };
    for (const block of this.unlinked) {
      if (!block.raw.toLowerCase().includes(`[${tag}]`)) continue;
      const [token] = parse(block.raw, this.links, false), holder = this.made(token, true);
      const nodes = [...(token.type === 'list' ? holder.firstChild : holder).childNodes];
      block.nodes[0].before(...nodes);
      for (const node of block.nodes) node.remove();
      block.nodes = nodes;
    }
  }
}

function itemsBefore(list, end) {
  let at = 0;
  return list.items.filter((item) => {
    const before = at < end;
    at += item.raw.length;
    return before;
  });
}

// ---- the interface ----

document.addEventListener('click', (event) => {
  const button = event.target.closest?.('.code button.copy');
  if (button) copyBy(button.closest('.code').querySelector('pre').textContent, button);
});

// options: plain: no Markdown. around(paint): is called for each painting, and calls paint().
export function create(element, { plain = false, around = (paint) => paint() } = {}) {
  const text = plain ? new PlainText(element) : new MarkdownText(element, around);
  const painter = new Painter((finished) => text.paint(finished), around);
  return {
    append(more) {
      text.append(more);
      painter.request();
    },
    end() { painter.run(true); },
  };
}
