// SPDX-License-Identifier: Apache-2.0
// The chat page: joins the conversation that is shown, its answers under way, the list and the settings. An answer goes
// on when another conversation is opened.
import * as composer from './composer.js';
import * as connect from './connect.js';
import * as list from './conversations.js';
import { button, byId, closeNotice, element, newId, notice, remember, remembered } from './dom.js';
import * as settings from './settings.js';
import { Store } from './store.js';
import { Refusal, Server, modeOf } from './stream.js';
import { messagesOf, newestLeaf, pathTo, siblingsOf, titleOf } from './tree.js';
import { AnswerView, QuestionView, ResultsView } from './turns.js';

const log = byId('log'), scroller = byId('scroll'), welcome = byId('welcome');
const saveMs = 500, waitMs = 1000, lookMs = 1000, looksMax = 3;

const tinyExamples = [
  'What is 4728 + 915?', 'How many r in strawberry?', 'what is an otter',
  'Tell me a story about a fox.', 'Which is larger, 4071 or 4107?', 'Who are you?',
];
const otherExamples = [
  'Why is the sky blue?', 'Write a haiku about the deep sea.',
  'What is the sum of the first 100 whole numbers?',
];

const store = new Store(), server = new Server();
const tab = remembered('tab', '', true) || newId();
remember('tab', tab, true);

// A conversation: its record, its turns by id, the leaf that is shown, and its answer under way.
const fresh = () => ({ id: null, record: null, turns: new Map(), leaf: null, run: null, gone: false });
let shown = fresh();
const live = new Map();    // those with an answer under way, by id
const views = new Map();   // of turns, by id
const elsewhere = new Map(); // turns that another tab writes: looks since it last said so

// ---- storing ----

const kept = ({ code, fresh: isNew, ...turn }) => turn; // those two are of this visit

function saveTurn(turn) {
  const { id, ...fields } = kept(turn);
  return store.patch('turns', id, fields);
}

function saveRecord(chat, fields) {
  Object.assign(chat.record, fields);
  return store.patch('conversations', chat.id, chat.gone ? { ...chat.record, deleted: 0 } : fields);
}

function addTurn(chat, fields, text) {
  const now = Date.now();
  if (!chat.id) {
    chat.id = newId();
    chat.record = { id: chat.id, title: titleOf(text), created: now };
    saveRecord(chat, { ...chat.record });
    remember('draft new', null, true);
    if (chat === shown) {
      history.replaceState(null, '', `#${chat.id}`);
      composer.nameDraft(chat.id);
    }
  }
  if (chat.gone) { // deleted in another tab: what is written here makes it new
    saveRecord(chat, {});
    for (const turn of chat.turns.values()) saveTurn(turn);
    chat.gone = false;
  }
  const turn = { id: newId(), conversation: chat.id, at: now, state: 'done', ...fields };
  for (const { at } of chat.turns.values()) turn.at = Math.max(turn.at, at + 1);
  chat.turns.set(turn.id, turn);
  chat.leaf = turn.id;
  saveTurn(turn);
  saveRecord(chat, { leaf: turn.id, changed: now }).then(list.refresh);
  return turn;
}

// ---- the log ----

// Who scrolled up reads there, and stays there.
let follows = true;

function atEnd() {
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
}

function scrollToEnd() {
  scroller.scrollTop = scroller.scrollHeight;
  follows = true;
  byId('to-end').hidden = true;
}

function following(paint) {
  paint();
  if (follows) scrollToEnd();
  else byId('to-end').hidden = atEnd();
}

let lastTop = 0;
scroller.addEventListener('scroll', () => {
  if (scroller.scrollTop < lastTop) follows = atEnd();
  else follows ||= atEnd();
  lastTop = scroller.scrollTop;
  byId('to-end').hidden = atEnd();
});
byId('to-end').addEventListener('click', () => {
  scrollToEnd();
  composer.focus();
});

const currentPath = () => pathTo(shown.turns, shown.leaf);

const page = {
  following,
  choose(turn) {
    const { title } = document.activeElement;
    shown.leaf = newestLeaf(shown.turns, turn.id);
    saveRecord(shown, { leaf: shown.leaf });
    show();
    const arrows = [...viewOf(turn).root.querySelectorAll('.branches button:enabled')];
    (arrows.find((one) => one.title === title) ?? arrows[0])?.focus();
  },
  // These two return false if nothing is asked: what was written has to stay.
  askAgain: (turn, text) => ask(text, turn.parent),
  isLast: (turn) => shown.leaf === turn.id,
  giveResults(parent, results) {
    return ask(results.map(({ name, text }) => `${name}: ${text}`).join('\n'), parent, { role: 'tool', results });
  },
  regenerate,
  goOn(turn) { if (!shown.run) write(shown, turn, modeAfter(turn)); },
  editQuestion(turn) { viewOf(shown.turns.get(turn.parent)).edit(); },
};

function viewOf(turn) {
  let view = views.get(turn.id);
  if (!view) {
    view = new { user: QuestionView, assistant: AnswerView, tool: ResultsView }[turn.role](turn, page);
    views.set(turn.id, view);
  }
  return view;
}

function show() {
  const path = currentPath();
  welcome.hidden = path.length > 0;
  path.forEach((turn, i) => {
    const { root } = viewOf(turn);
    if (log.children[i] === root) return;
    while (log.children[i]) log.lastChild.remove();
    log.append(root);
  });
  while (log.children.length > path.length) log.lastChild.remove();
  following(() => path.forEach((turn) => {
    const view = viewOf(turn);
    if (turn.role === 'assistant') view.setBusyElsewhere(elsewhere.has(turn.id) && shown.run?.turn !== turn);
    view.refresh(siblingsOf(shown.turns, turn));
  }));
  showRunning();
}

function showRunning() {
  composer.showRunning(Boolean(shown.run));
  log.setAttribute('aria-live', shown.run ? 'off' : 'polite');
}

// ---- answers ----

// A failed or unfinished answer is asked for again, and goes on; one that ended goes on behind its words.
function modeAfter(turn) {
  if (turn.state === 'done') {
    turn.continued = true;
    return 'prefix';
  }
  return modeOf(turn);
}

async function write(chat, turn, mode) {
  const path = pathTo(chat.turns, turn.parent), view = viewOf(turn);
  const controller = new AbortController(), run = chat.run = { turn, controller };
  live.set(chat.id, chat);
  Object.assign(turn, { state: 'writing', writer: tab, reason: null, error: null, code: null });
  view.setBusy(true);
  if (chat === shown) {
    show();
    scrollToEnd();
  }
  let saved = performance.now(), said = null; // the stream's last comment
  const began = saved;
  const save = () => {
    saved = performance.now();
    store.post('writing', { id: turn.id });
    return saveTurn(turn);
  };
  const showWait = () => {
    if (view.waiting !== 'away' && !view.hasGrown) view.waitFor(said, Math.round((performance.now() - began) / 1000));
  };
  const waiting = setInterval(showWait, waitMs);
  save();
  try {
    turn.reason = await server.write(turn, messagesOf(path, settings.systemPrompt()), mode, {
      signal: controller.signal,
      onAlive(comment) {
        said = comment;
        showWait();
      },
      onText() {
        view.paint();
        if (performance.now() - saved > saveMs) save();
      },
      onWait(message, now) {
        view.wait(`${message} The page asks again until the server is there.`, [button('Ask now', now)], 'away');
      },
      onBack() {
        said = null;
        view.wait('The server is there again.');
      },
    });
    turn.state = 'done';
  } catch (error) {
    Object.assign(turn, { state: 'failed', error: error.message, code: error instanceof Refusal ? error.code : null, fresh: true });
  }
  clearInterval(waiting);
  live.delete(chat.id);
  chat.run = null;
  if (turn.thought && turn.thoughtMs === undefined) view.endThinking();
  view.setBusy(false);
  await save(); // an answer that looks finished survives a reload
  if (chat !== shown) return;
  show();
  byId('announcer').textContent = turn.state === 'failed' ? '' : turn.text;
  focusIfNone();
}

// Who has begun something else is not torn from it.
function focusIfNone() {
  if (document.activeElement === document.body) composer.focus();
}

// A new answer to a question; the former one stays as a branch.
function answer(chat, question) {
  let params;
  try {
    params = settings.requestParams();
    if (question.role === 'tool') delete params.tool_choice; // a call was made
  } catch (error) {
    notice('settings', error.message, { alert: true });
    return;
  }
  write(chat, addTurn(chat, { role: 'assistant', parent: question.id, text: '', state: 'writing', writer: tab, params }), 'new');
}

function regenerate(turn) {
  if (shown.run) return;
  if (turn.text || turn.thought || turn.calls?.length) {
    answer(shown, shown.turns.get(turn.parent));
    return;
  }
  try {
    turn.params = settings.requestParams(); // nothing came that would be lost
  } catch (error) {
    notice('settings', error.message, { alert: true });
    return;
  }
  write(shown, turn, 'new');
}

// Returns whether it is asked.
function ask(text, parent = shown.leaf, fields = { role: 'user' }) {
  if (shown.run || !text.trim()) return false;
  if (elsewhere.has(parent)) {
    notice('elsewhere', 'Another tab still writes this answer. Ask when it has ended.');
    return false;
  }
  try { settings.requestParams(); } catch (error) {
    notice('settings', error.message, { alert: true });
    return false;
  }
  closeNotice('settings');
  const question = addTurn(shown, { ...fields, parent, text }, text);
  answer(shown, question);
  return true;
}

// ---- conversations ----

function display(chat) {
  opening++;
  shown = chat;
  log.replaceChildren();
  for (const [id] of views) if (![...live.values()].some(({ turns }) => turns.has(id))) views.delete(id);
  composer.openDraft(chat.id ?? 'new');
  show();
  scrollToEnd();
  list.refresh();
}

// A conversation as it is stored; null: it is not.
async function read(id) {
  const record = (await store.conversations()).find((one) => one.id === id);
  if (!record) return null;
  const turns = new Map((await store.turns(id)).map((turn) => [turn.id, turn]));
  const leaf = turns.has(record.leaf) ? record.leaf : newestLeaf(turns, null);
  return { ...fresh(), id, record, turns, leaf };
}

let opening = 0;

// Of several that are opened, the last one is shown, whichever was read first.
async function open(id, remembers = true) {
  const mine = ++opening, chat = live.get(id) ?? await read(id);
  if (mine !== opening) return;
  if (!chat) {
    if (id) notice('gone', 'This conversation is not in this browser.');
    newChat();
    return;
  }
  closeNotice('gone');
  if (remembers && location.hash !== `#${id}`) history.pushState(null, '', `#${id}`);
  display(chat);
  store.post('who', {});
  if (remembers) composer.focus();
  else focusIfNone();
}

function newChat() {
  if (location.hash) history.pushState(null, '', location.pathname + location.search);
  display(fresh());
  composer.focus();
}

const isWriting = () => composer.text().trim() || [...log.querySelectorAll('textarea')].some(({ value }) => value.trim());

// Another tab has changed something: its turns are taken over, and ours stay. The page follows it to a new leaf, unless
// its reader writes something here.
async function takeOver({ ids }) {
  list.refresh();
  const chat = shown;
  if (!chat.id || !ids.some((id) => id === chat.id || !chat.turns.has(id) || chat.run?.turn.id !== id)) return;
  const found = await read(chat.id);
  if (chat !== shown) return;
  chat.gone = !found;
  if (!found) {
    notice('gone', 'This conversation was deleted in another tab. What you write here brings it back.');
    return;
  }
  closeNotice('gone');
  for (const [id, turn] of found.turns) {
    if (turn.state !== 'writing') elsewhere.delete(id);
    if (chat.run?.turn.id === id) continue;
    if (chat.turns.has(id)) Object.assign(chat.turns.get(id), turn);
    else chat.turns.set(id, turn);
  }
  chat.record = found.record;
  if (!chat.run && !isWriting()) chat.leaf = newestLeaf(chat.turns, chat.leaf);
  show();
}

store.addEventListener('changed', ({ detail }) => takeOver(detail));
store.addEventListener('writing', ({ detail: { id } }) => {
  const isNew = !elsewhere.has(id);
  elsewhere.set(id, 0);
  if (isNew && shown.turns.has(id)) show();
});
// A tab that was closed, or that has crashed, no longer says what it writes.
setInterval(() => {
  const before = elsewhere.size;
  for (const [id, looks] of elsewhere)
    if (looks < looksMax) elsewhere.set(id, looks + 1);
    else elsewhere.delete(id);
  if (elsewhere.size < before) show();
  if (elsewhere.size) store.post('who', {});
}, lookMs);
store.addEventListener('who', () => {
  for (const { run } of live.values()) store.post('writing', { id: run.turn.id });
});
store.addEventListener('trouble', () => notice('storage',
  `The browser cannot store this conversation (${store.trouble.name}): it is only in this page. Export it, or delete others.`,
  { alert: true, actions: [['Export', list.exportCurrent]] }));
store.addEventListener('well', () => closeNotice('storage'));

// ---- controls ----

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !document.querySelector('dialog[open]')) shown.run?.controller.abort();
});
byId('new-chat').addEventListener('click', () => {
  list.closeOnPhone();
  newChat();
});
window.addEventListener('popstate', () => (location.hash ? open(location.hash.slice(1), false) : display(fresh())));
window.addEventListener('beforeunload', (event) => {
  for (const { run } of live.values()) saveTurn(run.turn);
  if (store.trouble && store.pending.turns.size) event.preventDefault(); // it would be lost
});

// ---- the key of a server with accounts ----

function showDoor(text = '') {
  byId('door').hidden = false;
  byId('door-text').textContent = text;
  byId('key').focus();
}

byId('door').addEventListener('submit', (event) => {
  event.preventDefault();
  server.key = byId('key').value.trim();
  settings.keepKey(server.key, byId('key-kept').checked);
  byId('key').value = '';
  greet();
});

// ---- start ----

function showWelcome() {
  const tiny = !server.model || server.model.startsWith('tiny-r1');
  byId('welcome-text').textContent = tiny
    ? 'A very small model that thinks before it answers. It adds and multiplies, counts letters, ' +
      'defines common nouns and tells short stories; it knows little else.'
    : 'Everything you write stays between this page and your server.';
  byId('examples').replaceChildren(...(tiny ? tinyExamples : otherExamples).map((text) => {
    const item = element('li');
    item.append(button(text, () => ask(text)));
    return item;
  }));
}

async function greet() {
  try {
    if (!await server.greet()) return;
    byId('door').hidden = true;
  } catch {
    byId('model').textContent = 'server not reachable';
  }
  showWelcome();
}

server.onModel = () => {
  byId('model').textContent = server.model;
  document.title = `${server.model} – Fathom`;
};
server.onKeyWanted = () => showDoor(server.key ? 'The server does not know this key.' : '');

async function start() {
  server.key = settings.readKey();
  settings.start({
    onKey(wanted) {
      if (!wanted) server.key = '';
      showDoor();
    },
  });
  connect.start(server);
  composer.start({
    server,
    onSend() {
      const text = composer.text();
      if (shown.run || !text.trim()) return;
      const had = shown.leaf;
      ask(text);
      if (shown.leaf !== had) composer.setText('');
    },
    onStop: () => shown.run?.controller.abort(),
    lastQuestion: () => currentPath().findLast(({ role }) => role === 'user')?.text ?? '',
  });
  await store.open();
  if (store.trouble)
    notice('storage', 'This browser keeps no conversations here: they are lost when the page is closed.', { alert: true });
  await list.start(store, {
    current: () => shown.record,
    currentPath,
    open: (id) => open(id),
    close: () => newChat(),
  });
  if (location.hash) await open(location.hash.slice(1), false);
  else composer.openDraft('new');
  await greet();
  showRunning();
  focusIfNone();
}

start();
