// SPDX-License-Identifier: Apache-2.0
// Shows text that grows: create(element) returns {append(text), end()}. Paragraphs, fenced code, inline code and bold
// text, made of text nodes only: an answer can never become markup.
import { element } from './dom.js';

function addInline(parent, text) {
  for (const piece of text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
    if (/^`[^`]+`$/.test(piece)) parent.append(element('code', '', piece.slice(1, -1)));
    else if (/^\*\*[^*]+\*\*$/.test(piece)) parent.append(element('strong', '', piece.slice(2, -2)));
    else if (piece) parent.append(piece);
  }
}

function render(parent, text) {
  const blocks = [];
  let code = null;
  for (const line of text.split('\n')) {
    if (/^\s*```/.test(line)) {
      code = code ? null : { code: true, lines: [] };
      if (code) blocks.push(code);
    } else if (code) {
      code.lines.push(line);
    } else if (!line.trim()) {
      blocks.push(null);
    } else {
      const last = blocks.at(-1);
      if (last && !last.code) last.lines.push(line);
      else blocks.push({ code: false, lines: [line] });
    }
  }
  parent.replaceChildren(...blocks.filter(Boolean).map((block) => {
    if (!block.code) {
      const paragraph = element('p');
      addInline(paragraph, block.lines.join('\n'));
      return paragraph;
    }
    const frame = element('pre');
    frame.append(element('code', '', block.lines.join('\n')));
    return frame;
  }));
}

// options: plain: the text as it is. around(paint): is called for each painting, and calls paint().
export function create(target, { plain = false, around = (paint) => paint() } = {}) {
  let text = '', frame = 0;
  const paint = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    around(() => (plain ? (target.textContent = text) : render(target, text)));
  };
  return {
    append(more) {
      text += more;
      frame ||= requestAnimationFrame(paint);
    },
    end: paint,
  };
}
