// SPDX-License-Identifier: Apache-2.0
// Protects what the chat page keeps: conversations survive a reload, with their branches; two tabs lose nothing of each
// other's; what the browser cannot store stays in the page.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { Tab, copies, launch } from './lib/tab.mjs';
import { deepseek } from './lib/families.mjs';
import { Puppet, repeat, say, weather } from './lib/puppet.mjs';

let server, browser, tab, folder;

before(async () => {
  server = await Puppet.start({ stepMs: 10 }); // an answer that is to be stopped lasts for minutes
  folder = mkdtempSync(join(tmpdir(), 'fathom-'));
  browser = await launch({}, folder);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(folder, { recursive: true });
});

beforeEach(async () => { tab = await Tab.open(browser, server.url); });
afterEach(async () => { await tab.close(); });

const texts = (locator) => locator.allTextContents();

// The page has what `holds` says; a list is drawn a moment later.
async function until(read, expected) {
  let found;
  for (const end = Date.now() + 60000; Date.now() < end; await new Promise((done) => setTimeout(done, 20))) {
    found = await read();
    if (JSON.stringify(found) === JSON.stringify(expected)) return;
  }
  assert.deepEqual(found, expected);
}

async function reload(which = tab) {
  await which.page.reload();
  await which.ready();
}

// Resolves with the messages of the request that `act` makes.
async function asked(act) {
  const [{ messages }] = await Promise.all([tab.asking(), act()]);
  return messages.map(({ role, content }) => `${role}: ${content}`);
}

async function saved(button) {
  if (!await tab.button(button).isVisible()) await tab.page.getByText('Export and import').click();
  return tab.saved(button);
}

// The texts of the stored answers.
const stored = (from = tab) => from.page.evaluate(() => new Promise((resolve) => {
  indexedDB.open('fathom-conversations').onsuccess = ({ target: { result } }) => {
    result.transaction('turns').objectStore('turns').getAll().onsuccess = (event) => {
      result.close();
      resolve(event.target.result.filter(({ role }) => role === 'assistant').map(({ text }) => text));
    };
  };
}));

const take = (...files) => tab.page.locator('#import-file').setInputFiles(files);

test('a conversation survives a reload, and is found in the list', async () => {
  await tab.ask(say('one'));
  await tab.finished(0);
  await tab.ask(say('two'));
  await tab.finished(1);
  await reload();
  assert.deepEqual(await texts(tab.questions()), [say('one'), say('two')]);
  assert.deepEqual(await texts(tab.page.locator('#log .answer')), ['one', 'two']);
  assert.match(await tab.answers().nth(1).locator('.facts').textContent(), /\d+ in, \d+ out/);
  await tab.button('New chat').click();
  assert.equal(await tab.questions().count(), 0);
  await tab.ask(say('three'));
  await tab.finished(0);
  await until(() => texts(tab.items()), [say('three'), say('one')]); // the latest first
  await tab.items().nth(1).click();
  await tab.finished(1);
  assert.deepEqual(await asked(() => tab.ask('four')),
    [`user: ${say('one')}`, 'assistant: one', `user: ${say('two')}`, 'assistant: two', 'user: four']);
  assert.deepEqual(tab.complaints, []);
});

test('conversations are searched in their answers, renamed, and deleted with a way back', async () => {
  await tab.ask(say('about otters'));
  await tab.finished(0);
  await tab.button('New chat').click();
  await tab.ask(say('about foxes'));
  await tab.finished(0);
  const search = tab.page.getByLabel('Search conversations');
  await search.fill('OTTERS');
  await until(() => texts(tab.items()), [say('about otters')]);
  await search.fill('whales');
  await tab.page.getByText('No conversation has these words.').waitFor();
  await search.fill('');
  await tab.page.locator('#conversations li').nth(1).getByRole('button', { name: 'Rename' }).click();
  await tab.page.getByLabel('New title').fill('Of otters');
  await tab.page.keyboard.press('Enter');
  await until(() => texts(tab.items()), [say('about foxes'), 'Of otters']);
  await tab.picture('list');
  await tab.page.clock.install();
  await tab.page.clock.pauseAt(Date.now() + 1000); // a deletion can be undone for 20 s
  const gone = async () => {
    await tab.button('Delete Of otters').click();
    await until(() => texts(tab.items()), [say('about foxes')]);
  };
  await gone();
  await tab.picture('deleted');
  await tab.button('Undo').click();
  await until(() => texts(tab.items()), [say('about foxes'), 'Of otters']);
  await reload();
  await until(() => texts(tab.items()), [say('about foxes'), 'Of otters']);
  await gone();
  await tab.button('Close this line').click(); // for good
  await until(stored, ['about foxes']);
});

test('an edited question and a regenerated answer keep the former branches', async () => {
  await tab.ask(say('first'));
  await tab.finished(0);
  await tab.answers().nth(0).getByRole('button', { name: 'Regenerate' }).click();
  await tab.answers().getByText('2/2').waitFor();
  await tab.finished(0);
  await tab.ask('after the second');
  await tab.finished(1);
  await tab.button('Former branch').click();
  assert.equal(await tab.answers().count(), 1);
  await tab.button('Next branch').click();
  assert.equal(await tab.answers().count(), 2);
  await tab.page.locator('.mine').nth(0).getByRole('button', { name: 'Edit' }).click();
  await tab.page.getByLabel('Edit your question').fill(say('edited'));
  const messages = await asked(() => tab.page.locator('.edit .primary').click());
  assert.deepEqual(messages, [`user: ${say('edited')}`]);
  await tab.finished(0);
  assert.equal(await tab.answer().textContent(), 'edited');
  await tab.picture('branches');
  await reload();
  assert.equal(await tab.answer().textContent(), 'edited');
  await tab.page.locator('.mine').getByRole('button', { name: 'Former branch' }).click();
  assert.deepEqual(await texts(tab.questions()), [say('first'), 'after the second']);
  await reload(); // the branch that was shown
  assert.deepEqual(await texts(tab.questions()), [say('first'), 'after the second']);
});

test('an arrow keeps the focus as long as it leads on', async () => {
  await tab.ask(say('one'));
  await tab.finished(0);
  for (const count of ['2/2', '3/3']) {
    await tab.answers().nth(0).getByRole('button', { name: 'Regenerate' }).click();
    await tab.answers().getByText(count).waitFor();
    await tab.finished(0);
  }
  await tab.button('Former branch').focus();
  for (const [count, focus] of [['2/3', 'Former branch'], ['1/3', 'Next branch']]) {
    await tab.page.keyboard.press('Enter');
    await tab.answers().getByText(count).waitFor();
    assert.equal(await focused(), focus);
  }
});

test('what is written stays if it cannot be asked', async () => {
  await tab.ask(say('one'));
  await tab.finished(0);
  await tab.page.locator('.mine').getByRole('button', { name: 'Edit' }).click();
  await tab.page.getByLabel('Edit your question').fill(say('edited'));
  await tab.set('#schema', '{');
  await tab.page.locator('.edit .primary').click();
  await tab.page.getByText('The schema in the settings is not JSON').waitFor();
  assert.equal(await tab.page.getByLabel('Edit your question').inputValue(), say('edited'));
  await tab.set('#schema', '');
  await tab.page.locator('.edit .primary').click();
  await tab.answers().getByText('edited').waitFor();
});

test('a half typed result stays while another tab goes on', async () => {
  await tab.set('#tools', JSON.stringify(weather));
  await tab.ask(say(deepseek.calls([['weather', { place: 'Bonn' }]])));
  await tab.page.getByLabel('Result of weather').fill('half');
  const other = await Tab.in(tab.page.context(), server.url);
  await other.items().nth(0).click();
  await other.page.getByLabel('Result of weather').fill(say('Sun.'));
  await other.button('Send the result').click();
  await other.finished(1);
  await other.answers().nth(0).getByRole('button', { name: 'Regenerate' }).click();
  await tab.page.getByText('1/2').waitFor(); // all of it has arrived
  assert.equal(await tab.page.getByLabel('Result of weather').inputValue(), 'half');
});

test('JSON takes everything to another browser, once', async () => {
  await tab.ask(say('kept'));
  await tab.finished(0);
  await tab.answers().nth(0).getByRole('button', { name: 'Regenerate' }).click();
  await tab.answers().getByText('2/2').waitFor();
  await tab.finished(0);
  await tab.button('New chat').click();
  await tab.ask(say('another'));
  await tab.finished(0);
  const file = await saved('All as JSON');
  await tab.close();
  tab = await Tab.open(browser, server.url);
  await take(file);
  await tab.page.getByText('2 conversations imported.').waitFor();
  await until(() => texts(tab.items()), [say('another'), say('kept')]);
  await tab.items().nth(1).click();
  await tab.answers().getByText('2/2').waitFor();
  await take(file);
  await tab.page.getByText('All of these conversations were here already.').waitFor();
  assert.equal(await tab.items().count(), 2);
  const again = await saved('All as JSON');
  assert.deepEqual(JSON.parse(readFileSync(again, 'utf8')), JSON.parse(readFileSync(file, 'utf8')));
});

test('Markdown has the shown path, and comes back as it was', async () => {
  const text = 'a\n\n\\<!-- turn: x -->\n<!-- turn: question -->\n## Answer\n';
  await tab.ask(`${text}${say('line\n\n<!-- turn: answer -->')}`);
  await tab.finished(0);
  await tab.ask(say('end'));
  await tab.finished(1);
  const question = await texts(tab.questions());
  const file = await saved('This conversation as Markdown');
  assert.match(readFileSync(file, 'utf8'), /^# a\n\n<!-- turn: question -->\n## Question\n\na\n/);
  const before = tab.page.url();
  await take(file);
  await tab.page.getByText('1 conversation imported.').waitFor();
  await tab.page.waitForURL((url) => url.href !== before);
  assert.deepEqual(await texts(tab.questions()), question);
  const again = await saved('This conversation as Markdown');
  assert.equal(readFileSync(again, 'utf8'), readFileSync(file, 'utf8'));
});

test('a file of something else is refused in words', async () => {
  const file = (name, content) => {
    writeFileSync(join(folder, name), content);
    return take(join(folder, name));
  };
  await file('shopping.md', '# milk\n');
  await tab.page.getByText('shopping.md is neither JSON nor Markdown that this page exported.').waitFor();
  await file('other.json', '{"a": 1}');
  await tab.page.getByText('its "format" must be "fathom-conversations"').waitFor();
  await file('bad.json', JSON.stringify({ format: 'fathom-conversations', version: 1, conversations: [],
    turns: [{ id: 'a', conversation: 'b', parent: null, role: 'user', text: 'x', at: 1 }] }));
  await tab.page.getByText('bad.json has a record that is not valid').waitFor();
  const turn = { id: 'a', conversation: 'c', parent: 'b', role: 'assistant', text: 'x', at: 1, state: 'done' };
  const files = (name, ...turns) => file(name, JSON.stringify({ format: 'fathom-conversations', version: 1,
    conversations: [{ id: 'c', title: 'odd', created: 1, changed: 1, leaf: 'a' }], turns }));
  await files('calls.json', { ...turn, calls: [{}] });
  await tab.page.getByText('calls.json has a record that is not valid').waitFor();
  assert.equal(await tab.items().count(), 0);
  await files('circle.json', turn, { ...turn, id: 'b', parent: 'a', role: 'user' });
  await until(() => tab.questions().count(), 1);
  await tab.button('New chat').click();
  assert.deepEqual(tab.complaints, []);
});

test('an answer is copied', async () => {
  await tab.ask(say('**bold** words'));
  await tab.finished(0);
  await copies(tab.answers().nth(0).locator('.actions').getByRole('button', { name: 'Copy' }));
  assert.equal(await tab.page.evaluate(() => navigator.clipboard.readText()), '**bold** words');
});

test('an answer that was cut goes on behind its words', async () => {
  await tab.set('#max_tokens', '4');
  await tab.ask(repeat('on and '));
  await tab.page.getByText('cut at the length limit').waitFor();
  const before = await tab.answer().textContent();
  const messages = await asked(() => tab.button('Continue').click());
  assert.match(messages.at(-1), /^assistant: on and/);
  await tab.page.waitForFunction((length) => document.querySelector('#log .answer').textContent.length > length, before.length);
  await tab.finished(0);
  assert.ok((await tab.answer().textContent()).startsWith(before.trim()));
  assert.equal(await tab.answers().count(), 1);
});

test('the result of a call is entered, and the answer goes on', async () => {
  const place = 'Köln', calls = (...places) => say(deepseek.calls(places.map((one) => ['weather', { place: one }])));
  await tab.set('#tools', JSON.stringify(weather));
  await tab.page.getByRole('button', { name: 'Settings' }).click();
  await tab.page.getByLabel('One of them has to be called').check();
  await tab.button('Close the settings').click();
  await tab.ask(calls(place, 'Bonn'));
  const results = tab.page.getByLabel('Result of weather', { exact: true });
  await results.nth(1).fill('Rain');
  await results.nth(0).fill(`Sun ${say('Sun and rain.')}`);
  await tab.picture('result');
  const [{ messages, tool_choice: choice }] = await Promise.all([tab.asking(), tab.button('Send the results').click()]);
  const ids = messages[1].tool_calls.map(({ id }) => id);
  assert.deepEqual(messages.slice(2), [{ role: 'tool', tool_call_id: ids[0], content: `Sun ${say('Sun and rain.')}` },
    { role: 'tool', tool_call_id: ids[1], content: 'Rain' }]);
  assert.equal(choice, undefined); // or it would call for ever
  await tab.finished(1);
  assert.equal(await tab.answer(1).textContent(), 'Sun and rain.');
  assert.equal(await results.count(), 0);
  // Another result is a branch. It survives a reload, and a file.
  await tab.page.getByLabel('Result', { exact: true }).getByRole('button', { name: 'Edit' }).click();
  await results.nth(0).fill(say('Fog.'));
  await tab.page.keyboard.press('Control+Enter');
  await tab.page.getByText('2/2').waitFor();
  await tab.finished(1);
  await reload();
  assert.deepEqual(await texts(tab.page.locator('#log .answer')), ['', 'Fog.']);
  assert.deepEqual(await texts(tab.page.locator('.mine figcaption')), ['weather returned', 'weather returned']);
  const file = await saved('All as JSON');
  await tab.close();
  tab = await Tab.open(browser, server.url);
  await take(file);
  await tab.page.getByText('2/2').waitFor();
  await tab.button('Former branch').click();
  assert.equal(await tab.answer(1).textContent(), 'Sun and rain.');
  assert.deepEqual(tab.complaints, []);
});

test('a draft survives a reload, one for each conversation', async () => {
  await tab.box().fill('half a tho');
  await reload();
  assert.equal(await tab.box().inputValue(), 'half a tho');
  await tab.ask(say('x'));
  await tab.finished(0);
  await tab.box().fill('more of it');
  await tab.button('New chat').click();
  assert.equal(await tab.box().inputValue(), '');
  await tab.items().nth(0).click();
  await until(() => tab.box().inputValue(), 'more of it');
});

test('two tabs write into one conversation, and nothing is lost', async () => {
  await tab.ask(say('root'));
  await tab.finished(0);
  const other = await Tab.in(tab.page.context(), server.url);
  await other.items().nth(0).click();
  await other.finished(0);
  const both = [[tab, 'from one'], [other, 'from two']];
  for (const [one, text] of both) await one.box().fill(say(text));
  await Promise.all(both.map(([one]) => one.button('Send').click()));
  await Promise.all(both.map(([one]) => one.finished(1)));
  await other.page.locator('#conversations li').nth(0).getByRole('button', { name: 'Rename' }).click();
  await other.page.getByLabel('New title').fill('Shared');
  await other.page.keyboard.press('Enter');
  await until(() => texts(tab.items()), ['Shared']); // without a reload
  await reload();
  assert.equal(await tab.questions().count(), 2);
  const last = await tab.questions().nth(1).textContent();
  await tab.page.locator('.mine').nth(1).getByText('/2').waitFor(); // the other one is a branch
  await tab.page.locator('.mine').nth(1).locator('.branches button:enabled').click();
  assert.deepEqual([last, await tab.questions().nth(1).textContent()].sort(), [say('from one'), say('from two')]);
  // A conversation that is deleted elsewhere stays on the page, and is stored again by the next question.
  await tab.button('Delete Shared').click();
  await other.page.getByText('was deleted in another tab').waitFor();
  await other.ask(say('back'));
  await other.finished(2);
  await until(() => texts(tab.items()), ['Shared']);
  assert.deepEqual([...tab.complaints, ...other.complaints], []);
});

const focused = () => tab.page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent);

test('the focus and a half typed title stay while the list is drawn again', async () => {
  for (const text of ['a', 'b', 'c']) {
    await tab.ask(say(text));
    await tab.finished(0);
    await tab.button('New chat').click();
  }
  await until(() => texts(tab.items()), ['c', 'b', 'a'].map(say));
  const other = await Tab.in(tab.page.context(), server.url);
  const opened = await tab.page.evaluate(() => {
    document.querySelectorAll('#conversations li')[1].querySelector('[title^="Rename"]').click();
    return document.activeElement.getAttribute('aria-label');
  });
  assert.equal(opened, 'New title'); // at once: what is typed next goes into it
  await tab.page.keyboard.type('B by');
  await other.ask(say('d'));
  await until(() => texts(tab.items()), ['d', 'c', 'a'].map(say));
  await tab.page.keyboard.type(' keys');
  await tab.page.keyboard.press('Enter');
  await until(() => texts(tab.items()), [say('d'), say('c'), 'B by keys', say('a')]);
  assert.equal(await focused(), 'B by keys');
  await other.finished(0);
  await other.items().nth(3).click();
  await until(() => texts(other.questions()), [say('a')]);
  await other.ask(say('once more'));
  await until(() => texts(tab.items()), [say('a'), say('d'), say('c'), 'B by keys']); // it has moved
  assert.equal(await focused(), 'B by keys');
  await other.button('Delete B by keys').click();
  await until(() => texts(tab.items()), [say('a'), say('d'), say('c')]);
  assert.equal(await focused(), say('c'));
});

test('the focus stays on the button of a turn while another answer comes', async () => {
  await tab.ask(say('first'));
  await tab.finished(0);
  await tab.ask(say('second'));
  await tab.page.locator('.mine').nth(0).getByRole('button', { name: 'Edit' }).focus();
  await tab.finished(1);
  assert.equal(await focused(), 'Edit');
  assert.ok(await tab.page.locator('.mine').nth(0).evaluate((turn) => turn.contains(document.activeElement)));
});

test('what was opened last is shown, whichever is read first', async () => {
  await tab.ask(say('one'));
  await tab.finished(0);
  await tab.button('New chat').click();
  await tab.page.evaluate(() => {
    document.querySelector('#conversations .open').click();
    document.getElementById('new-chat').click();
  });
  await tab.ask(say('two'));
  await until(() => texts(tab.items()), [say('two'), say('one')]);
});

test('a question is kept if the page is left as it is sent', async () => {
  await tab.box().fill(say('kept'));
  await Promise.all([tab.page.waitForEvent('load'), tab.page.evaluate(() => {
    document.getElementById('composer').requestSubmit();
    location.reload();
  })]);
  await tab.page.getByText('This answer was not finished').waitFor();
  assert.deepEqual(await texts(tab.questions()), [say('kept')]);
  await tab.button('Try again').click();
  await tab.finished(0);
  assert.equal(await tab.answer().textContent(), 'kept');
});

test('an answer is seen in another tab while it comes', async () => {
  await tab.ask(repeat('on and '));
  await tab.answer().getByText('on and').waitFor();
  const other = await Tab.in(tab.page.context(), server.url);
  await other.items().nth(0).click();
  await other.page.locator('article.busy').waitFor();
  await tab.button('Stop the answer').click();
  for (const { page } of [tab, other]) await page.getByText('stopped').waitFor();
  assert.equal(await other.answer().textContent(), await tab.answer().textContent());
});

test('what a tab leaves is stored by another one at once, not later over what that has written', async () => {
  const other = await Tab.in(tab.page.context(), server.url);
  await tab.ask(repeat('on and '));
  await tab.answer().getByText('on and').waitFor();
  await other.items().nth(0).click();
  await other.page.locator('article.busy').waitFor();
  await tab.page.goto('about:blank');
  await other.page.getByText('This answer was not finished').waitFor();
  await until(() => other.page.evaluate(() => localStorage.getItem('fathom-unsaved')), null);
  const before = await other.answer().textContent();
  await other.button('Continue').click();
  await other.page.waitForFunction((length) => document.querySelector('#log .answer').textContent.length > length, before.length);
  await other.button('Stop the answer').click();
  await other.page.getByText('stopped').waitFor();
  const text = await other.answer().textContent();
  await until(async () => (await stored(other))[0].trim(), text.trim());
  await reload(other);
  await other.page.getByText('stopped').waitFor();
  assert.equal(await other.answer().textContent(), text);
});

test('an answer goes on while another conversation is open', async () => {
  await tab.ask(repeat('on and '));
  await tab.answer().getByText('on and').waitFor();
  await tab.button('New chat').click();
  await tab.ask(say('meanwhile'));
  await tab.finished(0);
  await tab.items().nth(1).click();
  await tab.button('Stop the answer').click();
  await tab.page.getByText('stopped').waitFor();
  assert.match(await tab.answer().textContent(), /^on and/);
});

test('a reload in the middle of an answer keeps what came', async () => {
  await tab.ask(repeat('on and '));
  await until(async () => (await stored())[0]?.startsWith('on and'), true);
  await reload();
  await tab.page.getByText('This answer was not finished').waitFor();
  assert.match(await tab.answer().textContent(), /^on and/);
  await tab.picture('unfinished');
  const before = await tab.answer().textContent();
  await tab.button('Continue').click();
  await tab.page.waitForFunction((length) => document.querySelector('#log .answer').textContent.length > length, before.length);
  await tab.button('Stop the answer').click();
  await tab.page.getByText('stopped').waitFor();
});

test('where the storage is full the page says so, and loses nothing', async () => {
  await tab.close();
  tab = await Tab.open(browser, server.url, {}, () => {
    const put = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = function (...values) {
      if (globalThis.isFull) throw new DOMException('full', 'QuotaExceededError');
      return put.apply(this, values);
    };
  });
  await tab.page.evaluate(() => { globalThis.isFull = true; });
  await tab.ask(say('not stored'));
  await tab.finished(0);
  await tab.page.getByText('The browser cannot store this conversation (QuotaExceededError)').waitFor();
  await tab.picture('full');
  await until(() => texts(tab.items()), [say('not stored')]);
  assert.equal(JSON.parse(readFileSync(await tab.saved('Export'), 'utf8')).turns.length, 2);
  await tab.page.evaluate(() => { globalThis.isFull = false; });
  await tab.ask(say('stored'));
  await tab.finished(1);
  await tab.page.getByText('The browser cannot store').waitFor({ state: 'detached' });
  await reload();
  assert.deepEqual(await texts(tab.page.locator('#log .answer')), ['not stored', 'stored']);
});
