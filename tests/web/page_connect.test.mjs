// SPDX-License-Identifier: Apache-2.0
// Protects what "Use it from your tools" shows: the lines of docs/clients.md with the server's own address, model and
// key. Those for programs are run as they are shown; `./dev agents` runs those for agents.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Server, root, same } from './lib/server.mjs';
import { Tab, copies, launch, startProxy } from './lib/tab.mjs';

const key = 'sk-of-a-test', guide = readFileSync(`${root}docs/clients.md`, 'utf8');
const run = promisify(execFile);
let server, proxy, browser, tab, folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fathom-'));
  writeFileSync(join(folder, 'accounts.yaml'),
    `accounts:\n  - {name: acme, keys: ["sha256:${createHash('sha256').update(key).digest('hex')}"]}\n`);
  [server, browser] = await Promise.all([Server.start(...same, '--accounts', join(folder, 'accounts.yaml'), '--served-name', 'ours'), launch()]);
  proxy = await startProxy(server.url, '/llm/');
  tab = await Tab.blank(browser);
  await tab.page.goto(`${proxy.url}/`);
});

after(async () => {
  await browser?.close();
  await proxy?.stop();
  await server?.stop();
  rmSync(folder, { recursive: true });
});

const box = (name) => tab.page.locator('#connect details').filter({ has: tab.page.locator('summary', { hasText: new RegExp(`^${name}`) }) });
const lines = (name) => box(name).locator('pre').allTextContents();

async function open() {
  await tab.button('Use it from your tools').click();
  await box('curl').waitFor();
}

test('without a key the page says where it goes', async () => {
  await tab.page.getByLabel('This server asks for an API key').waitFor();
  await open();
  await tab.page.getByText('This server asks for a key').waitFor();
  assert.match((await lines('curl'))[0], /Bearer sk-fathom'/);
  await tab.page.keyboard.press('Escape');
  await tab.page.getByLabel('This server asks for an API key').fill(key);
  await tab.page.keyboard.press('Enter');
  await tab.ready();
});

test('the lines are those of the guide, below a proxy\'s path too', async () => {
  await open();
  assert.equal(await tab.page.locator('#connect-url').textContent(), `${proxy.url}/v1`);
  const ours = guide.replaceAll('http://127.0.0.1:8000', proxy.url).replaceAll('sk-fathom', key).replaceAll('tiny-r1', 'ours');
  const blocks = [...ours.matchAll(/^```\w+\n([^]*?)\n```$/gm)].map(([, text]) => text);
  assert.ok(blocks.length > 12, 'the guide has blocks');
  assert.deepEqual(await tab.page.locator('#connect-lines pre').allTextContents(), blocks);
  await tab.page.locator('#connect-prompt').getByText('is the task').waitFor();
  await tab.page.getByText('ours reads 2048 tokens: too few for an agent').waitFor();
  await tab.picture('connect');
});

test('what a test runs is marked as tested', async () => {
  const marks = await tab.page.locator('#connect summary').evaluateAll((all) =>
    all.map((one) => [one.firstChild.textContent, one.lastChild.textContent]));
  const { dependencies } = JSON.parse(readFileSync(`${root}tests/agents/package.json`, 'utf8'));
  const version = (name) => `tested with ${dependencies[name]}`;
  assert.deepEqual(marks, [['curl', 'tested'], ['Python', 'not tested'], ['Node.js', 'tested'],
    ['Claude Code', version('@anthropic-ai/claude-code')], ['Codex', version('@openai/codex')], ['opencode', version('opencode-linux-x64')],
    ['pi', version('@earendil-works/pi-coding-agent')], ['Cline', version('@cline/cli-linux-x64')],
    ['Continue', version('@continuedev/cli')], ['Open WebUI', 'not tested']]);
});

test('the lines for programs bring an answer', async () => {
  const { stdout } = await run('sh', ['-c', (await lines('curl'))[0]]);
  assert.ok(JSON.parse(stdout).choices[0].message.content.trim());
  const cwd = fileURLToPath(new URL('.', import.meta.url)); // the library is there
  assert.ok((await run('node', ['--input-type=module', '-e', (await lines('Node'))[0]], { cwd })).stdout.trim());
  // A stand-in for Python's library: what it takes and gives, by Python's own means.
  writeFileSync(join(folder, 'openai.py'), `import json, types, urllib.request

class OpenAI:
    def __init__(self, *, base_url, api_key):
        self.url, self.key = base_url, api_key
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, **body):
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + self.key}
        request = urllib.request.Request(self.url + "/chat/completions", json.dumps(body).encode(), headers)
        return json.load(urllib.request.urlopen(request), object_hook=lambda read: types.SimpleNamespace(**read))
`);
  const { stdout: python } = await run('python3', ['-c', (await lines('Python'))[0]], { env: { ...process.env, PYTHONPATH: folder } });
  assert.ok(python.trim());
});

test('a section is opened by the keyboard, and its lines are copied', async () => {
  await box('Codex').locator('summary').focus();
  await tab.page.keyboard.press('Enter');
  await box('Codex').locator('pre').first().waitFor();
  assert.ok(!await box('curl').locator('pre').isVisible()); // one at a time
  await box('Codex').getByRole('button', { name: 'Copy' }).first().click();
  await tab.page.waitForFunction(async (text) => await navigator.clipboard.readText() === text, (await lines('Codex'))[0]);
});

test('they are copied without TLS, too', async () => {
  await tab.page.evaluate(() => {
    globalThis.secure = navigator.clipboard;
    Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true });
  });
  await copies(tab.page.locator('#connect-copy'));
  assert.equal(await tab.page.evaluate(() => globalThis.secure.readText()), `${proxy.url}/v1`);
});

test('a name that needs quotes is left to the reader, and a key is not changed', async () => {
  const other = await Tab.blank(browser);
  let away = true;
  await other.page.addInitScript(() => sessionStorage.setItem('fathom-api-key', 'sk-tiny-r1'));
  await other.page.route('**/v1/models', (route) => route.fulfill({ json: { data: [{ id: "it's ours" }] } }));
  await other.page.route('**/clients.md', (route) => (away ? route.fulfill({ status: 502, body: 'Bad gateway' }) : route.continue()));
  await other.page.goto(`${server.url}/`);
  await other.ready();
  await other.button('Use it from your tools').click();
  await other.page.getByText('The server is not reachable.').waitFor();
  away = false;
  await other.button('Close the tools').click();
  await other.button('Use it from your tools').click();
  await other.page.locator('#connect pre').first().waitFor();
  const [line] = await other.page.locator('#connect pre').allTextContents();
  assert.ok(line.includes("Bearer sk-tiny-r1'") && line.includes('"model": "tiny-r1"'), line);
  await other.page.getByText('Replace tiny-r1 in the lines yourself').waitFor();
  await other.close();
});

test('the guide for Open WebUI has the same line', async () => {
  const [line] = await lines('Open WebUI');
  const plain = line.replace(proxy.url, 'http://127.0.0.1:8000').replace(key, 'none');
  assert.ok(readFileSync(`${root}docs/quickstart.md`, 'utf8').includes(`\n${plain}\n`), plain);
});
