// SPDX-License-Identifier: Apache-2.0
// Small parts of the page that every module uses: elements, notices, the clipboard, files to save.

export const byId = (id) => document.getElementById(id);

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function button(label, act, { title, className = '' } = {}) {
  const made = element('button', className, label);
  made.type = 'button';
  if (title) rename(made, title);
  made.addEventListener('click', act);
  return made;
}

// What a button says to those who point at it or do not see it.
export function rename(made, title) {
  made.title = title;
  made.setAttribute('aria-label', title);
}

const nameOf = (made) => made.getAttribute('aria-label') ?? made.textContent;

// Fills a box with other parts. Where they look as before, the old ones stay: a click that has begun still reaches its
// button. The focus stays on the button of its name.
export function refill(box, ...parts) {
  const old = [...box.childNodes];
  if (old.length === parts.length && old.every((part, i) => part.isEqualNode(parts[i]))) return;
  const focused = box.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  box.replaceChildren(...parts);
  if (focused) [...box.querySelectorAll('button:enabled')].find((one) => nameOf(one) === focused)?.focus();
}

// A new id. crypto.randomUUID is missing on pages without TLS.
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

// Servers below different paths of one host share the browser's storage: each has names of its own.
const folder = location.pathname.replace(/[^/]*$/, '');
export const scoped = (name) => (folder === '/' ? `fathom-${name}` : `fathom-${name} ${folder}`);

// Settings that survive: of this browser (localStorage), or of this tab alone (sessionStorage).
export function remembered(name, fallback, tabOnly = false) {
  try { return (tabOnly ? sessionStorage : localStorage).getItem(scoped(name)) ?? fallback; } catch { return fallback; }
}

export function remember(name, value, tabOnly = false) {
  try {
    const storage = tabOnly ? sessionStorage : localStorage;
    if (value === null) storage.removeItem(scoped(name));
    else storage.setItem(scoped(name), value);
    return true;
  } catch { return false; } // private windows may refuse
}

// A line above the composer. `name` replaces the former notice of that name. Returns its end.
export function notice(name, text, { actions = [], alert = false, seconds = 0, onClose } = {}) {
  document.querySelector(`.notice[data-name="${name}"]`)?.remove();
  const box = element('div', alert ? 'notice bad' : 'notice');
  box.dataset.name = name;
  box.setAttribute('role', alert ? 'alert' : 'status');
  let timer = 0;
  const close = () => {
    clearTimeout(timer);
    box.remove();
  };
  const end = () => {
    close();
    onClose?.();
  };
  box.append(element('span', '', text),
    ...actions.map(([label, act]) => button(label, () => { close(); act(); })),
    button('×', end, { title: 'Close this line' }));
  byId('notices').append(box);
  if (seconds) timer = setTimeout(end, 1000 * seconds);
  return close;
}

export function closeNotice(name) {
  document.querySelector(`.notice[data-name="${name}"]`)?.remove();
}

// navigator.clipboard is missing on pages without TLS; a selection can be copied there, in an open dialog if there is one.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch { /* below */ }
  const area = element('textarea', 'unseen', text);
  const before = document.activeElement;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
  before?.focus();
}

// Copies for a button, which says so for a moment.
export async function copyBy(text, made) {
  await copyText(text);
  made.textContent = 'Copied';
  setTimeout(() => { made.textContent = 'Copy'; }, 1500);
}

export function saveFile(name, type, text) {
  const link = element('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
