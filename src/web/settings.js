// SPDX-License-Identifier: Apache-2.0
// What a reader chose: how answers are asked for, the page's colours, and the API key. All of it stays in this
// browser; a key in this tab alone unless its reader wants more.
import { byId, remember, remembered } from './dom.js';

const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'frequency_penalty', 'presence_penalty', 'seed', 'max_tokens'];
const sampling = numbers.filter((name) => name !== 'max_tokens');
const texts = ['system', 'thinking', 'effort', 'schema', 'tools', 'theme'];
const dialog = byId('settings');

let values = {}; // of the fields above by their names: texts; '' or absent: the default
let presets = []; // { name, text }

function read() {
  try { values = JSON.parse(remembered('settings', '{}')); } catch { values = {}; }
  try { presets = JSON.parse(remembered('presets', '[]')); } catch { presets = []; }
}

function showTheme() {
  if (values.theme) document.documentElement.dataset.theme = values.theme;
  else delete document.documentElement.dataset.theme;
}

function showPresets() {
  byId('preset').replaceChildren(new Option(presets.length ? 'Choose one' : 'none yet', ''),
    ...presets.map(({ name }) => new Option(name, name)));
  byId('preset').value = presets.find(({ text }) => text === byId('system').value)?.name ?? '';
  byId('preset-delete').disabled = !byId('preset').value;
}

function show() {
  for (const name of [...numbers, ...texts]) byId(name).value = values[name] ?? '';
  byId('tool-required').checked = Boolean(values.toolRequired);
  for (const name of ['schema', 'tools']) check(name);
  showTheme();
  showPresets();
}

function set(name, value) {
  if (value === '' || value === false) delete values[name];
  else values[name] = value;
  remember('settings', JSON.stringify(values));
  byId('settings-button').classList.toggle('changed', Object.keys(values).some((key) => key !== 'theme'));
}

// ---- schema and tools ----

function parse(name) {
  const text = (values[name] ?? '').trim();
  if (!text) return null;
  const read = JSON.parse(text);
  if (read === null || typeof read !== 'object') throw new Error('it must be an object');
  return read;
}

function toolsOf(read) {
  return [read].flat().map((tool) => (tool.type && tool.type !== 'object' ? tool : { type: 'function', function: tool }));
}

function check(name) {
  let problem = '';
  try { parse(name); } catch (error) { problem = `Not usable: ${error.message}`; }
  byId(`${name}-problem`).textContent = problem;
  byId(name).setAttribute('aria-invalid', String(Boolean(problem)));
}

// ---- for the other modules ----

export const systemPrompt = () => values.system ?? '';

// The fields of a request beyond its messages; throws an Error in words if one is not usable.
export function requestParams() {
  const params = {};
  for (const name of numbers) if (values[name] !== undefined) params[name] = Number(values[name]);
  params.seed ??= crypto.getRandomValues(new Uint32Array(1))[0]; // so that a broken answer can be asked for again
  if (values.thinking) params.thinking = { type: values.thinking };
  if (values.effort) params.reasoning_effort = values.effort;
  for (const name of ['schema', 'tools']) {
    try {
      const read = parse(name);
      if (read && name === 'schema') params.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema: read } };
      if (read && name === 'tools') params.tools = toolsOf(read);
    } catch (error) {
      throw new Error(`The ${name === 'schema' ? 'schema' : 'tool'} in the settings is not JSON: ${error.message}`);
    }
  }
  if (params.tools && values.toolRequired) params.tool_choice = 'required';
  return params;
}

// ---- the key ----

export function readKey() {
  return remembered('api-key', '', true) || remembered('api-key', '');
}

export function keepKey(key, forLong) {
  remember('api-key', key, true);
  remember('api-key', forLong ? key : null);
}

function showKey() {
  const kept = Boolean(remembered('api-key', '')), key = readKey();
  byId('key-text').textContent = !key ? 'This page has no key.'
    : kept ? 'A key is kept in this browser.' : 'A key is kept until this tab is closed.';
  byId('key-forget').hidden = !key;
}

// ---- start ----

// onKey(wanted): the reader wants to enter another key (true), or has the page forget it.
export function start({ onKey }) {
  read();
  show();
  set('theme', values.theme ?? '');
  for (const name of numbers)
    byId(name).addEventListener('input', () => set(name, byId(name).validity.valid ? byId(name).value : ''));
  for (const name of texts)
    byId(name).addEventListener('input', () => {
      set(name, byId(name).value);
      if (name === 'theme') showTheme();
      if (name === 'system') showPresets();
      if (name === 'schema' || name === 'tools') check(name);
    });
  byId('tool-required').addEventListener('change', () => set('toolRequired', byId('tool-required').checked));
  byId('sampling-default').addEventListener('click', () => {
    for (const name of sampling) set(name, '');
    show();
  });
  window.addEventListener('storage', () => { // another tab
    read();
    if (!dialog.open) show();
    else showTheme();
  });

  const storePresets = () => {
    remember('presets', JSON.stringify(presets));
    showPresets();
  };
  byId('preset').addEventListener('input', () => {
    const chosen = presets.find(({ name }) => name === byId('preset').value);
    if (!chosen) return;
    byId('system').value = chosen.text;
    set('system', chosen.text);
    showPresets();
  });
  byId('preset-save').addEventListener('click', () => {
    byId('preset-form').hidden = false;
    byId('preset-name').focus();
  });
  const storePreset = () => {
    const name = byId('preset-name').value.trim();
    if (!name) return;
    presets = [...presets.filter((one) => one.name !== name), { name, text: byId('system').value }];
    byId('preset-form').hidden = true;
    byId('preset-name').value = '';
    storePresets();
  };
  byId('preset-store').addEventListener('click', storePreset);
  byId('preset-name').addEventListener('keydown', (event) => { if (event.key === 'Enter') storePreset(); });
  byId('preset-delete').addEventListener('click', () => {
    presets = presets.filter(({ name }) => name !== byId('preset').value);
    storePresets();
  });

  byId('settings-button').addEventListener('click', () => {
    show();
    showKey();
    dialog.showModal();
  });
  byId('settings-close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  byId('key-change').addEventListener('click', () => {
    dialog.close();
    onKey(true);
  });
  byId('key-forget').addEventListener('click', () => {
    remember('api-key', null);
    remember('api-key', null, true);
    showKey();
    onKey(false);
  });
}
