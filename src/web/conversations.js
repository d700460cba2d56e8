// SPDX-License-Identifier: Apache-2.0
// The list of conversations: open, search, rename, delete with undo, export and import.
import { byId, button, element, notice, remember, remembered, rename, saveFile } from './dom.js';
import { fromFile, toJson, toMarkdown } from './exchange.js';

const list = byId('list'), items = byId('conversations'), search = byId('search'), opener = byId('list-button');
const narrow = matchMedia('(max-width: 56rem)');
const undoSeconds = 20;

let store, page; // page: { current(), currentPath(), open(id), close(id) }
let drawing = 0;
const rows = new Map(); // of the list, by the conversation's id: they stay while it is drawn again

// ---- the panel ----

function showList(visible, keep = true) {
  list.hidden = !visible;
  opener.setAttribute('aria-expanded', String(visible));
  document.body.classList.toggle('listed', visible);
  if (keep && !narrow.matches) remember('list', visible ? 'open' : 'closed');
}

export function closeOnPhone() {
  if (narrow.matches) showList(false);
}

// ---- items ----

function deleteOne(conversation) {
  const wasOpen = page.current()?.id === conversation.id;
  store.patch('conversations', conversation.id, { deleted: Date.now() }).then(refresh);
  if (wasOpen) page.close(conversation.id);
  notice(`deleted ${conversation.id}`, `“${conversation.title}” is deleted.`, {
    actions: [['Undo', async () => {
      await store.patch('conversations', conversation.id, { deleted: 0 });
      await refresh();
      if (wasOpen) page.open(conversation.id);
    }]],
    seconds: undoSeconds,
    onClose: () => store.purge(({ id, deleted }) => id === conversation.id && deleted),
  });
}

// The title becomes a field at once: what is typed next goes into it.
function edit(row) {
  const { conversation, item } = row, form = element('form', 'rename'), field = element('input');
  field.value = conversation.title;
  field.setAttribute('aria-label', 'New title');
  const end = async (title) => {
    if (row.form !== form) return;
    const focused = form.contains(document.activeElement);
    row.form = null;
    if (title) conversation.title = title;
    item.replaceChildren(row.open, row.edit, row.remove);
    show(row);
    if (focused) row.open.focus();
    if (title) await store.patch('conversations', conversation.id, { title, named: true });
    await refresh();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    end(field.value.trim());
  });
  field.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    end('');
  });
  field.addEventListener('blur', () => end(field.value.trim()));
  form.append(field);
  row.form = form;
  item.replaceChildren(form);
  field.focus();
  field.select();
}

function show({ conversation: { id, title, changed }, open, edit: pen, remove }) {
  if (open.textContent !== title) open.textContent = title;
  open.title = `${title} · ${new Date(changed).toLocaleString()}`;
  if (page.current()?.id === id) open.setAttribute('aria-current', 'true');
  else open.removeAttribute('aria-current');
  rename(pen, `Rename ${title}`);
  rename(remove, `Delete ${title}`);
}

function newRow() {
  const row = { item: element('li'), form: null };
  row.open = button('', () => {
    closeOnPhone();
    page.open(row.conversation.id);
  }, { className: 'open' });
  row.edit = button('✎', () => edit(row), { className: 'quiet' });
  row.remove = button('×', () => deleteOne(row.conversation), { className: 'quiet' });
  row.item.append(row.open, row.edit, row.remove);
  return row;
}

function rowOf(conversation) {
  const row = rows.get(conversation.id) ?? newRow();
  rows.set(conversation.id, row);
  row.conversation = conversation;
  show(row);
  return row;
}

// The item with the focus is not moved, as it would lose it. If it is gone, the focus goes to the one in its place.
function place(wanted) {
  const focused = document.activeElement, old = [...items.children];
  const at = old.findIndex((item) => item.contains(focused)), held = wanted.indexOf(old[at]);
  if (held < 0) items.replaceChildren(...wanted);
  else {
    for (const item of old) if (!wanted.includes(item)) item.remove();
    old[at].before(...wanted.slice(0, held));
    old[at].after(...wanted.slice(held + 1));
  }
  if (at >= 0 && held < 0) (wanted[Math.min(at, wanted.length - 1)]?.querySelector('.open') ?? search).focus();
}

// Those with the words in their title or in one of their turns.
async function found(all) {
  const words = search.value.trim().toLowerCase();
  if (!words) return all;
  const holds = new Set((await store.read('turns'))
    .filter(({ text }) => text?.toLowerCase().includes(words)).map(({ conversation }) => conversation));
  return all.filter(({ id, title }) => holds.has(id) || title.toLowerCase().includes(words));
}

export async function refresh() {
  const mine = ++drawing;
  const all = await store.conversations(), shown = await found(all);
  if (mine !== drawing) return; // a later one is under way
  const ids = new Set(shown.map(({ id }) => id));
  for (const id of rows.keys()) if (!ids.has(id)) rows.delete(id);
  place(shown.map((conversation) => rowOf(conversation).item));
  byId('list-empty').textContent = shown.length ? '' : all.length ? 'No conversation has these words.' : 'None yet.';
  byId('export-markdown').disabled = byId('export-json').disabled = !page.current();
  byId('export-all').disabled = !all.length;
}

// ---- files ----

const nameOf = (title) => title.replace(/[^\p{L}\p{N} _-]+/gu, ' ').trim().slice(0, 60) || 'conversation';

function withoutOwn(record) {
  const { writer, deleted, ...rest } = record;
  return rest;
}

async function saveJson(conversations, name) {
  const ids = new Set(conversations.map(({ id }) => id));
  const turns = (await store.read('turns')).filter(({ conversation }) => ids.has(conversation));
  saveFile(`${name}.json`, 'application/json', toJson(conversations.map(withoutOwn), turns.map(withoutOwn)));
}

async function oneOf(id) {
  return (await store.conversations()).filter((one) => one.id === id);
}

export async function exportCurrent() {
  const [conversation] = await oneOf(page.current().id);
  await saveJson([conversation], nameOf(conversation.title));
}

async function importFiles(files) {
  let added = 0, last = null;
  for (const file of files) {
    try {
      const { conversations, turns } = fromFile(file.name, await file.text(), Date.now());
      added += await store.add('conversations', conversations);
      await store.add('turns', turns);
      last = conversations.at(-1)?.id ?? last;
    } catch (error) {
      notice('import', error.message, { alert: true });
      return;
    }
  }
  await refresh();
  notice('import', added ? `${added} ${added === 1 ? 'conversation' : 'conversations'} imported.`
    : 'All of these conversations were here already.', { seconds: undoSeconds });
  if (last) page.open(last);
}

// ---- start ----

export async function start(theStore, thePage) {
  store = theStore;
  page = thePage;
  showList(!narrow.matches && remembered('list', 'open') === 'open', false);
  narrow.addEventListener('change', () => showList(!narrow.matches && remembered('list', 'open') === 'open', false));
  opener.addEventListener('click', () => {
    showList(list.hidden);
    if (!list.hidden && narrow.matches) search.focus();
  });
  list.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && narrow.matches) {
      showList(false);
      opener.focus();
      event.stopPropagation();
    }
    if (!['ArrowDown', 'ArrowUp'].includes(event.key) || event.target.closest('.rename')) return;
    const all = [search, ...items.querySelectorAll('.open')];
    const at = all.indexOf(event.target.closest('li')?.querySelector('.open') ?? event.target);
    if (at < 0) return;
    all[Math.min(all.length - 1, Math.max(0, at + (event.key === 'ArrowDown' ? 1 : -1)))].focus();
    event.preventDefault();
  });
  search.addEventListener('input', refresh);
  byId('export-markdown').addEventListener('click', async () => {
    const [conversation] = await oneOf(page.current().id);
    saveFile(`${nameOf(conversation.title)}.md`, 'text/markdown', toMarkdown(conversation, page.currentPath()));
  });
  byId('export-json').addEventListener('click', exportCurrent);
  byId('export-all').addEventListener('click', async () => saveJson(await store.conversations(), 'conversations'));
  byId('import').addEventListener('click', () => byId('import-file').click());
  byId('import-file').addEventListener('change', async () => {
    await importFiles([...byId('import-file').files]);
    byId('import-file').value = '';
  });
  await store.purge(({ deleted }) => deleted && deleted < Date.now() - 3000 * undoSeconds);
  await refresh();
}
