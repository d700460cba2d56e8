// SPDX-License-Identifier: Apache-2.0
// "Use it from your tools": the lines of docs/clients.md, which the server has, with its own address, model and key in
// place of the examples.
import { create } from './answer.js';
import { byId, copyBy, element } from './dom.js';

const dialog = byId('connect');
const examples = /http:\/\/127\.0\.0\.1:8000|sk-fathom|tiny-r1|`max_model_len`/g;

// A shell, JSON, TOML and YAML read such a text as it stands, with and without quotes.
const isPlain = (text) => /^\w[\w.:/@%+=,-]*$/.test(text ?? '');

let guide = null;

// What stands behind each "###", and whether a test runs it.
function sectionsOf(text) {
  const versions = new Map([...text.matchAll(/^\| (.*) \| `.*` \| ([\d.]+) \| `.*` \|$/gm)].map(([, name, version]) => [name, version]));
  return text.split(/^(?=##)/m).filter((part) => part.startsWith('### ')).map((part) => {
    const end = part.indexOf('\n'), name = part.slice(4, end), body = part.slice(end).trim();
    return { name, body, tested: versions.has(name) ? `tested with ${versions.get(name)}` : /^Not tested/m.test(body) ? 'not tested' : 'tested' };
  });
}

function boxOf({ name, body, tested }, open) {
  const box = element('details'), head = element('summary', '', name), lines = element('div', 'answer');
  box.name = 'connect';
  box.open = open;
  head.append(element('span', tested === 'not tested' ? 'tested no' : 'tested', tested));
  box.append(head, lines);
  const shown = create(lines);
  shown.append(body);
  shown.end();
  return box;
}

async function show({ model, key, tokensMax }) {
  const url = new URL('.', location.href).href.replace(/\/$/, '');
  byId('connect-url').textContent = `${url}/v1`;
  const own = { 'http://127.0.0.1:8000': url, ...(isPlain(key) && { 'sk-fathom': key }), ...(isPlain(model) && { 'tiny-r1': model }),
    ...(tokensMax && { '`max_model_len`': `\`max_model_len\`, here ${tokensMax}` }) };
  const left = [['sk-fathom', key], ['tiny-r1', model]].filter(([name, text]) => text && !own[name]).map(([name]) => name);
  byId('connect-key').textContent = left.length ? `Replace ${left.join(' and ')} in the lines yourself: yours has characters that need quotes.`
    : key ? 'The lines have the key that this page keeps.'
    : model ? 'This server takes any key.' : 'This server asks for a key: put yours in place of sk-fathom.';
  byId('connect-small').hidden = !tokensMax || tokensMax >= 16384;
  byId('connect-small').textContent = `${model} reads ${tokensMax} tokens: too few for an agent, whose instructions alone may take more.`;
  const box = byId('connect-lines');
  try {
    if (!guide) {
      const response = await fetch('clients.md');
      if (!response.ok) throw new Error(`status ${response.status}`);
      guide = await response.text();
    }
  } catch {
    box.replaceChildren(element('p', '', 'The server is not reachable.'));
    return;
  }
  const ours = guide.replace(examples, (found) => own[found] ?? found);
  const prompt = create(byId('connect-prompt'));
  byId('connect-prompt').replaceChildren();
  prompt.append(/^`\$PROMPT`[^]*?(?=\n\n)/m.exec(ours)?.[0] ?? '');
  prompt.end();
  box.replaceChildren(...sectionsOf(ours).map((section, i) => boxOf(section, i === 0)));
}

export function start(server) {
  byId('connect-button').addEventListener('click', () => {
    dialog.showModal();
    show(server);
  });
  byId('connect-close').addEventListener('click', () => dialog.close());
  byId('connect-copy').addEventListener('click', () => copyBy(byId('connect-url').textContent, byId('connect-copy')));
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
}
