// SPDX-License-Identifier: Apache-2.0
// Where a message is written: its draft survives a reload, files become text, and its tokens are counted.
import { byId, notice, remember, remembered } from './dom.js';

const question = byId('question'), send = byId('send'), stop = byId('stop'), tokens = byId('tokens');
const fileBytesMax = 1 << 20;
const countPauseMs = 250;

// A keyboard on the screen has no Shift+Enter: there Enter breaks the line, and the button sends.
const onScreen = matchMedia('(hover: none) and (pointer: coarse)');

let server, draftName = '', counting = null, timer = 0;

function fit() {
  question.style.height = 'auto';
  question.style.height = `${question.scrollHeight}px`;
  send.disabled = !question.value.trim();
}

function count() {
  clearTimeout(timer);
  counting?.abort();
  const text = question.value;
  tokens.textContent = '';
  tokens.classList.remove('bad');
  if (!text.trim()) return;
  timer = setTimeout(async () => {
    const { signal } = counting = new AbortController();
    let found = null;
    try { found = await server.countTokens(text, signal); } catch { /* the server is away */ }
    if (found === null || signal.aborted || text !== question.value) return;
    const most = server.tokensMax;
    tokens.textContent = found === Infinity ? `more than ${most} tokens`
      : `${found} ${found === 1 ? 'token' : 'tokens'}${most ? ` of ${most}` : ''}`;
    tokens.classList.toggle('bad', most > 0 && found >= most);
  }, countPauseMs);
}

function changed() {
  fit();
  count();
  if (!remember(draftName, question.value || null, true) && question.value)
    notice('draft', 'This browser cannot keep the draft: a reload will lose it.');
}

export function setText(text) {
  question.value = text;
  changed();
}

export const text = () => question.value;

export const focus = () => question.focus();

// What is written from now on is another conversation's draft.
export function nameDraft(id) { draftName = `draft ${id}`; }

// The draft of another conversation.
export function openDraft(id) {
  nameDraft(id);
  question.value = remembered(draftName, '', true);
  fit();
  count();
}

export function showRunning(running) {
  stop.hidden = !running;
  send.hidden = running;
  fit();
}

// ---- files ----

async function textOf(file) {
  if (file.size > fileBytesMax) throw new Error(`${file.name} has ${file.size} bytes; at most ${fileBytesMax} are added.`);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return text;
  } catch { /* not UTF-8 */ }
  throw new Error(`${file.name} is not text in UTF-8, so the model cannot read it.`);
}

export async function addFiles(files) {
  for (const file of files) {
    try {
      const text = await textOf(file);
      const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
      const before = question.value.replace(/\s*$/, '');
      setText(`${before}${before ? '\n\n' : ''}${file.name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}\n`);
    } catch (error) {
      notice(`file ${file.name}`, error.message, { alert: true });
    }
  }
  question.focus();
  question.setSelectionRange(question.value.length, question.value.length);
}

function takeDrops() {
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
  document.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.add('dropping');
  });
  document.addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) document.body.classList.remove('dropping');
  });
  document.addEventListener('drop', (event) => {
    document.body.classList.remove('dropping');
    if (!hasFiles(event)) return;
    event.preventDefault();
    addFiles(event.dataTransfer.files);
  });
  byId('attach').addEventListener('click', () => byId('attach-file').click());
  byId('attach-file').addEventListener('change', async () => {
    await addFiles(byId('attach-file').files);
    byId('attach-file').value = '';
  });
}

function showKeys() {
  byId('keys').textContent = onScreen.matches ? 'Enter breaks the line, the arrow sends'
    : 'Enter sends · Shift+Enter new line · ↑ last question · Esc stops';
  question.enterKeyHint = onScreen.matches ? 'enter' : 'send';
}

// onSend(): the text is to be asked. lastQuestion(): its text. onStop().
export function start({ onSend, onStop, lastQuestion, server: theServer }) {
  server = theServer;
  showKeys();
  onScreen.addEventListener('change', showKeys);
  takeDrops();
  byId('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    onSend();
  });
  question.addEventListener('input', changed);
  question.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    if (event.key === 'ArrowUp' && !question.value && lastQuestion()) {
      setText(lastQuestion());
      question.setSelectionRange(question.value.length, question.value.length);
      event.preventDefault();
    }
    if (event.key !== 'Enter' || event.shiftKey || onScreen.matches) return;
    event.preventDefault();
    onSend();
  });
  stop.addEventListener('click', onStop);
}
