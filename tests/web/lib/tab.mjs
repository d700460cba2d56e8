// SPDX-License-Identifier: Apache-2.0
// The chat page in a real browser: Chromium, or Firefox over WebDriver BiDi where FATHOM_BROWSER says so. With
// FATHOM_SCREENSHOTS=DIR pictures are left there.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { chromium, firefox } from 'playwright-core';
import { patience, sleep } from './server.mjs';

export const inFirefox = process.env.FATHOM_BROWSER === 'firefox';

const first = (...paths) => paths.find(existsSync);

// What Playwright sets for each context in Chromium are settings of the whole browser in Firefox.
const preferences = ({ colorScheme, reducedMotion, hasTouch }) => ({
  'layout.css.prefers-color-scheme.content-override': colorScheme === 'dark' ? 0 : 1,
  'ui.prefersReducedMotion': reducedMotion === 'reduce' ? 1 : 0,
  'ui.primaryPointerCapabilities': hasTouch ? 1 : 6, // coarse, or fine and one that hovers
  'ui.allPointerCapabilities': hasTouch ? 1 : 6,
  'dom.events.testing.asyncClipboard': true, // a page may read what it copied
});

// A browser; `media` is what its pages find if they do not say otherwise: { colorScheme, reducedMotion, hasTouch }. Files
// are saved in `folder`.
export async function launch(media = {}, folder) {
  const browser = inFirefox ?
    await firefox.launch({
      channel: 'moz-firefox', executablePath: process.env.FATHOM_FIREFOX ?? first('/usr/bin/firefox-esr', '/usr/bin/firefox'),
      timeout: patience, firefoxUserPrefs: preferences(media), downloadsPath: folder,
    }) :
    await chromium.launch({
      executablePath: process.env.FATHOM_CHROMIUM ?? first('/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'),
      timeout: patience, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking',
        '--disable-component-update', '--disable-sync', '--no-first-run'],
    });
  return Object.assign(browser, { media, folder });
}

// Playwright fills a field in Firefox letter by letter, where a line break is Enter: this sets its value.
async function fill(text) {
  await this.waitFor();
  await this.evaluate((field, value) => {
    field.focus();
    field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  }, text);
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

// The hash of the empty style that Playwright tries for each picture in Firefox, and that the page's policy refuses.
const styleOfPictures = 'sha256-YjaKGiklmzC6wjXA513HAMmzus8VE61XCOT+SmwNZWA=';

// One tab. `asked` are the bodies of the questions that its page sends, `strangers` requests to others than `url`,
// `complaints` errors of the page.
export class Tab {
  static async open(browser, url, options = {}, init) {
    const tab = await Tab.blank(browser, options);
    if (init) await tab.page.context().addInitScript(init);
    return tab.at(url);
  }

  static async in(context, url) {
    const tab = new this();
    await tab.begin(context);
    return tab.at(url);
  }

  // A tab in a context of its own, before it has a page. In Firefox other media than the browser's take a browser.
  static async blank(browser, options = {}) {
    const tab = new this(), media = { ...browser.media, ...options };
    if (inFirefox && ['colorScheme', 'reducedMotion', 'hasTouch'].some((name) => media[name] !== browser.media[name]))
      browser = tab.browser = await launch(media);
    await tab.begin(await browser.newContext({ viewport: { width: 1000, height: 750 }, ...media,
      permissions: inFirefox ? [] : ['clipboard-read', 'clipboard-write'] }));
    return tab;
  }

  async begin(context) {
    context.setDefaultTimeout(patience);
    this.page = await context.newPage();
    if (inFirefox) Object.getPrototypeOf(this.page.locator('x')).fill = fill;
    Object.assign(this, { asked: [], strangers: [], complaints: [] });
    this.page.on('request', (one) => {
      if (!one.url().startsWith(`${this.url}/`) && !one.url().startsWith('blob:')) this.strangers.push(one.url());
    });
    this.page.on('pageerror', ({ message }) => {
      if (!message.includes(styleOfPictures)) this.complaints.push(message);
    });
    this.page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text());
    });
    await this.page.exposeFunction('noteQuestion', (body) => {
      this.asked.push(JSON.parse(body));
      this.onAsked?.(this.asked.at(-1));
    });
    await this.page.addInitScript(() => { // BiDi does not show bodies
      const { fetch } = globalThis;
      globalThis.fetch = async (to, options) => {
        while (!globalThis.noteQuestion) await new Promise((resolve) => setTimeout(resolve, 10)); // it comes later
        if (String(to).endsWith('/chat/completions')) globalThis.noteQuestion(options.body);
        return fetch(to, options);
      };
    });
  }

  async at(url) {
    this.url = url;
    await this.page.goto(`${url}/`);
    await this.ready();
    return this;
  }

  // Resolves with the body of the next question.
  asking() { return new Promise((resolve) => { this.onAsked = resolve; }); }

  ready() { return this.page.locator('#examples button').first().waitFor({ state: 'attached' }); }

  async close() {
    await this.page.context().close();
    await this.browser?.close();
  }

  box() { return this.page.locator('#question'); }
  button(name) { return this.page.getByRole('button', { name, exact: true }); }
  questions() { return this.page.locator('#log article.mine .text'); }
  answers() { return this.page.locator('#log article.turn:not(.mine)'); }
  answer(index = 0) { return this.answers().nth(index).locator('.answer'); }
  items() { return this.page.locator('#conversations .open'); }

  async finished(index = 0) {
    await this.answers().nth(index).locator('.facts').waitFor().catch(async (error) => {
      const seen = await this.page.locator('body').innerText();
      throw new Error(`no answer: ${[...this.complaints, seen].join('; ')}`, { cause: error });
    });
  }

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

  // Resolves with the path of the file that is saved by a click on this button. BiDi does not show what a link saves.
  async saved(name) {
    const { folder } = this.page.context().browser(), before = readdirSync(folder);
    if (!inFirefox) {
      const [download] = await Promise.all([this.page.waitForEvent('download'), this.button(name).click()]);
      const path = join(folder, download.suggestedFilename());
      await download.saveAs(path);
      return path;
    }
    await this.button(name).click();
    for (const end = Date.now() + patience; Date.now() < end; await sleep(20)) {
      const [path, ...more] = readdirSync(folder).filter((one) => !before.includes(one)).map((one) => join(folder, one));
      if (path && !more.length && statSync(path).size) return path; // while it comes, there are two
    }
    throw new Error(`the browser saved no file for '${name}'`);
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
