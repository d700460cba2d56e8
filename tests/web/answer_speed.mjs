// SPDX-License-Identifier: Apache-2.0
// Usage: node answer_speed.mjs [TOKENS [PER_SECOND [KIND]]]: how busy the chat page is with one long answer. KIND: mixed
// (default), text, code, list or thought. Prints the processor time of the page's main thread, and the share of the time
// in which it was idle.
import { createServer, request } from 'node:http';
import { readFileSync, readdirSync } from 'node:fs';
import { Tab, launch } from './lib/tab.mjs';
import { Server, same, sleep } from './lib/server.mjs';

const [tokens = 20000, perSecond = 200, kind = 'mixed'] = [Number(process.argv[2] ?? 20000), Number(process.argv[3] ?? 200), process.argv[4]];

const sentence = 'The transform of $x_0$ is **linear**, and costs `O(N)`: it needs neither memory nor time of its own. ';
const kinds = {
  mixed: readFileSync(new URL('lib/answer.txt', import.meta.url), 'utf8').replace(/^\[1\].*$/m, ''),
  text: `${sentence.repeat(6)}\n\n`,
  list: `- ${sentence}\n- ${sentence}\n  - ${sentence}\n`,
  code: 'def fft(xs: list[complex]) -> list[complex]:\n    return xs if len(xs) == 1 else fft(xs[::2])  # short\n',
  thought: `${sentence.repeat(6)}\n\n`,
};
const once = kinds[kind];
if (!once) throw new Error(`answer_speed: expected one of ${Object.keys(kinds).join(', ')}, found '${kind}'`);
const source = (kind === 'code' ? '```python\n' : '') + once.repeat(Math.ceil(tokens * 4 / once.length) + 1);
const pieces = Array.from({ length: tokens }, (_, i) => source.slice(4 * i, 4 * i + 4));

async function stream(answer) {
  answer.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const began = performance.now(), field = kind === 'thought' ? 'reasoning_content' : 'content';
  for (let i = 0; i < pieces.length; i++) {
    const choice = { index: 0, delta: { [field]: pieces[i] }, finish_reason: i === pieces.length - 1 ? 'stop' : null };
    answer.write(`data: ${JSON.stringify({ id: 'chatcmpl-1', choices: [choice] })}\n\n`);
    await sleep(Math.max(0, began + (i + 1) * 1000 / perSecond - performance.now()));
  }
  answer.end('data: [DONE]\n\n');
}

// The processor seconds that the main threads of the browser's pages have taken. Reads /proc, in ticks of 10 ms.
function busySeconds() {
  const all = new Map(), read = (path) => { try { return readFileSync(path, 'latin1'); } catch { return ''; } };
  for (const id of readdirSync('/proc').filter((name) => Number(name))) {
    const [, parent, ...rest] = read(`/proc/${id}/task/${id}/stat`).replace(/^.*\) /, '').split(' ');
    all.set(id, { parent, ticks: Number(rest[9]) + Number(rest[10]), command: read(`/proc/${id}/cmdline`) });
  }
  const ours = (id) => id === String(process.pid) || (all.has(id) && ours(all.get(id).parent));
  return [...all].filter(([id, { command }]) => ours(id) && /--type=renderer|-isForBrowser/.test(command))
    .reduce((sum, [, { ticks }]) => sum + ticks / 100, 0);
}

const server = await Server.start(...same);
const front = createServer((asked, answer) => {
  if (asked.method === 'POST' && asked.url === '/v1/chat/completions') {
    asked.resume();
    stream(answer);
    return;
  }
  const { method, headers } = asked;
  asked.pipe(request(server.url + asked.url, { method, headers }, (response) => {
    answer.writeHead(response.statusCode, response.headers);
    response.pipe(answer);
  }));
});
await new Promise((resolve) => { front.listen(0, '127.0.0.1', resolve); });
const browser = await launch();
try {
  const { page, complaints } = await Tab.open(browser, `http://127.0.0.1:${front.address().port}`);
  page.setDefaultTimeout(20 * 60 * 1000);
  await page.locator('#question').fill('x');
  const before = busySeconds(), began = performance.now();
  await page.keyboard.press('Enter');
  await page.locator('article.busy').first().waitFor();
  await page.locator('article.turn:not(.mine):not(.busy)').first().waitFor();
  const busy = busySeconds() - before, seconds = (performance.now() - began) / 1000;
  console.log(`${kind}: ${tokens} tokens in ${seconds.toFixed(1)} s (${(tokens / seconds).toFixed(0)} a second); the page was busy ` +
    `for ${busy.toFixed(1)} s, idle for ${(100 * (1 - busy / seconds)).toFixed(1)} % of the time`);
  for (const complaint of complaints) console.log(complaint);
} finally {
  await browser.close();
  front.closeAllConnections();
  front.close();
  await server.stop();
}
