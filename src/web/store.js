// SPDX-License-Identifier: Apache-2.0
// Conversations in the browser's IndexedDB: a record for each conversation, and one for each turn, so that two tabs
// never overwrite each other's turns. A change is a patch of one record's fields, merged in a transaction. Patches
// that the browser refuses (storage full) stay in `pending`, are read as if they were stored, and are tried again
// with the next change. As the browser ends the transactions of a page that is left, the page keeps its patches in
// localStorage for another one, which stores them. Dispatches `changed` (another tab has written), `trouble` and `well`.
import { remember, remembered, scoped } from './dom.js';

const kinds = ['conversations', 'turns'];

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const ended = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error ?? new Error('The browser ended the transaction.'));
});

function openDatabase() {
  const request = indexedDB.open(scoped('conversations'), 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore('conversations', { keyPath: 'id' });
    request.result.createObjectStore('turns', { keyPath: 'id' }).createIndex('conversation', 'conversation');
  };
  return done(request);
}

// A record that is gone is not made again by a patch of some of its fields.
const whole = { conversations: 'created', turns: 'conversation' };

export class Store extends EventTarget {
  constructor() {
    super();
    this.pending = { conversations: new Map(), turns: new Map() };
    this.trouble = null;
    this.flushing = null;
    this.channel = null;
    this.database = null;
  }

  async open() {
    try {
      this.database = await openDatabase();
      this.database.onversionchange = () => this.database.close();
    } catch (error) {
      this.trouble = error;
    }
    this.restore();
    window.addEventListener('pagehide', () => this.leave());
    window.addEventListener('pageshow', ({ persisted }) => { if (persisted) this.restore(); });
    // At once: a later visit would undo what this tab changes meanwhile.
    window.addEventListener('storage', ({ key, newValue }) => {
      const ids = newValue && key === scoped('unsaved') ? this.restore() : [];
      if (ids.length) this.dispatchEvent(new CustomEvent('changed', { detail: { ids } }));
    });
    if (!globalThis.BroadcastChannel) return;
    this.channel = new BroadcastChannel(scoped('conversations'));
    this.channel.onmessage = ({ data }) => this.dispatchEvent(new CustomEvent(data.kind, { detail: data }));
  }

  leave() {
    const patches = kinds.flatMap((kind) => [...this.pending[kind]].map(([id, fields]) => [kind, id, fields]));
    if (patches.length && !this.trouble)
      remember('unsaved', JSON.stringify([...JSON.parse(remembered('unsaved', '[]')), ...patches]));
  }

  // Takes over what pages wrote when they were left, and returns its ids.
  restore() {
    if (!this.database) return [];
    const left = JSON.parse(remembered('unsaved', '[]'));
    remember('unsaved', null);
    for (const [kind, id, fields] of left) this.patch(kind, id, fields);
    return left.map(([, id]) => id);
  }

  // Tells the other tabs.
  post(kind, more) {
    this.channel?.postMessage({ kind, ...more });
  }

  patch(kind, id, fields) {
    this.pending[kind].set(id, { ...this.pending[kind].get(id), ...fields, id });
    return this.flush();
  }

  // Resolves when all patches made so far are stored, or refused.
  async flush() {
    while (this.flushing) await this.flushing;
    if (!kinds.some((kind) => this.pending[kind].size)) return;
    this.flushing = this.write();
    await this.flushing;
  }

  async write() {
    const taken = kinds.map((kind) => [kind, [...this.pending[kind]]]);
    try {
      if (!this.database) throw this.trouble;
      const transaction = this.database.transaction(kinds, 'readwrite');
      const end = ended(transaction);
      end.catch(() => {});
      for (const [kind, patches] of taken) {
        const records = transaction.objectStore(kind);
        for (const [id, fields] of patches) {
          const old = await done(records.get(id));
          if (old || whole[kind] in fields) records.put({ ...old, ...fields });
        }
      }
      await end;
      for (const [kind, patches] of taken)
        for (const [id, fields] of patches)
          if (this.pending[kind].get(id) === fields) this.pending[kind].delete(id);
      if (this.trouble) this.dispatchEvent(new CustomEvent('well'));
      this.trouble = null;
      this.post('changed', { ids: taken.flatMap(([, patches]) => patches.map(([id]) => id)) });
    } catch (error) {
      this.trouble = error;
      this.dispatchEvent(new CustomEvent('trouble'));
    } finally {
      this.flushing = null;
    }
  }

  // Records of a kind, those of an index' key if given, with pending patches.
  async read(kind, key) {
    const found = new Map();
    if (this.database) {
      const records = this.database.transaction(kind).objectStore(kind);
      const stored = await done(key === undefined ? records.getAll() : records.index('conversation').getAll(key));
      for (const record of stored) found.set(record.id, record);
    }
    for (const [id, fields] of this.pending[kind])
      if (found.has(id) || (whole[kind] in fields && (key === undefined || fields.conversation === key)))
        found.set(id, { ...found.get(id), ...fields });
    return [...found.values()];
  }

  // The latest first.
  async conversations() {
    const all = await this.read('conversations');
    return all.filter((one) => !one.deleted).sort((a, b) => b.changed - a.changed);
  }

  turns(conversation) { return this.read('turns', conversation); }

  // Adds records that are not there. Returns how many were new.
  async add(kind, records) {
    const known = new Set((await this.read(kind)).map(({ id }) => id));
    const fresh = records.filter(({ id }) => !known.has(id));
    for (const record of fresh) this.pending[kind].set(record.id, record);
    await this.flush();
    return fresh.length;
  }

  // Removes conversations and their turns for good.
  async purge(isDoomed) {
    const doomed = (await this.read('conversations')).filter(isDoomed).map(({ id }) => id);
    for (const id of doomed) {
      const turns = (await this.turns(id)).map((turn) => turn.id);
      this.pending.conversations.delete(id);
      for (const turn of turns) this.pending.turns.delete(turn);
      if (!this.database) continue;
      const transaction = this.database.transaction(kinds, 'readwrite');
      transaction.objectStore('conversations').delete(id);
      for (const turn of turns) transaction.objectStore('turns').delete(turn);
      await ended(transaction);
    }
    if (doomed.length) this.post('changed', { ids: doomed });
    return this.flush(); // there is room again
  }
}
