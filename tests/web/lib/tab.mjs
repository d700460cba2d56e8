// SPDX-License-Identifier: Apache-2.0
// The chat page in a real browser. With FATHOM_SCREENSHOTS=DIR pictures are left there.
import { existsSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { chromium } from 'playwright-core';
import { patience } from './server.mjs';

const executablePath = process.env.FATHOM_CHROMIUM ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

export function launch() {
  return chromium.launch({
    executablePath,
    timeout: patience,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--no-first-run'],
  });
}

// Clicks a button, and resolves when it has said "Copied", which lasts for a moment only.
export async function copies(locator) {
  const copy = await locator.elementHandle();
  await copy.evaluate((button) => {
    button.copied = new Promise((resolve) => {
      new MutationObserver(() => { if (button.textContent === 'Copied') resolve(); }).observe(button, { childList: true });
    });
  });
  await copy.click();
  await copy.evaluate((button) => button.copied);
}

// One tab. `strangers` are requests to others than `url`, `complaints` errors of the page.
export class Tab {
  static async open(browser, url, options = {}, init) {
    const context = await browser.newContext({ viewport: { width: 1000, height: 750 }, ...options });
    context.setDefaultTimeout(patience);
    if (init) await context.addInitScript(init);
    return Tab.in(context, url);
  }

  static async in(context, url) {
    const tab = new this();
    tab.page = await context.newPage();
    tab.strangers = [];
    tab.complaints = [];
    tab.page.on('request', (asked) => {
      if (!asked.url().startsWith(`${url}/`) && !asked.url().startsWith('blob:')) tab.strangers.push(asked.url());
    });
    tab.page.on('pageerror', (error) => tab.complaints.push(error.message));
    tab.page.on('console', (message) => {
      if (message.type() === 'error') tab.complaints.push(message.text());
    });
    await tab.page.goto(`${url}/`);
    await tab.ready();
    return tab;
  }

  ready() { return this.page.locator('#examples button').first().waitFor({ state: 'attached' }); }

  close() { return this.page.context().close(); }

  box() { return this.page.locator('#question'); }
  button(name) { return this.page.getByRole('button', { name, exact: true }); }
  questions() { return this.page.locator('#log article.mine .text'); }
  answers() { return this.page.locator('#log article.turn:not(.mine)'); }
  answer(index = 0) { return this.answers().nth(index).locator('.answer'); }
  items() { return this.page.locator('#conversations .open'); }
  finished(index = 0) { return this.answers().nth(index).locator('.facts').waitFor(); }

  async ask(text) {
    await this.box().fill(text);
    await this.button('Send').click();
  }

  // Only then is an answer the same each time.
  chooseTheLikeliest() { return this.set('#temperature', '0'); }

  async set(field, value) {
    await this.button('Settings').click();
    await this.page.locator(field).fill(value);
    await this.button('Close the settings').click();
  }

  // Presses "Ask now", unless the page asks by itself first.
  async askNow() {
    await Promise.race([this.button('Ask now').click().catch(() => {}), this.finished(0)]);
  }

  async openList() {
    if (!await this.page.locator('#list').isVisible()) await this.button('Conversations').click();
  }

  async picture(name) {
    if (process.env.FATHOM_SCREENSHOTS)
      await this.page.screenshot({ path: `${process.env.FATHOM_SCREENSHOTS}/${name}.png` });
  }
}

// What nginx does with `location PREFIX { proxy_pass http://ADDRESS/; }` and the client's Host kept; all else is its own.
// `chunksMax`: after so many chunks of an answer's text nothing is passed on, and `onCut` is called; stop() cuts the connection.
export async function startProxy(target, prefixes = '/', port = 0) {
  const [first] = [prefixes].flat();
  const proxy = createServer((asked, answer) => {
    const prefix = [prefixes].flat().find((one) => asked.url.startsWith(one));
    if (!prefix) {
      answer.writeHead(404).end();
      return;
    }
    const { method, headers } = asked;
    const passed = request(target + asked.url.slice(prefix.length - 1), { method, headers }, (response) => {
      answer.writeHead(response.statusCode, response.headers);
      let chunks = 0;
      response.on('data', (data) => {
        answer.write(data);
        chunks += data.toString().split('"content":"').length - 1;
        if (!proxy.chunksMax || chunks < proxy.chunksMax) return;
        response.pause();
        proxy.onCut?.();
      });
      response.on('end', () => answer.end());
      response.on('error', () => answer.destroy());
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
  await new Promise((resolve) => { proxy.listen(port, '127.0.0.1', resolve); });
  proxy.url = `http://127.0.0.1:${proxy.address().port}${first.slice(0, -1)}`;
  proxy.stop = () => {
    const closed = new Promise((resolve) => { proxy.close(resolve); });
    proxy.closeAllConnections();
    return closed;
  };
  return proxy;
}
