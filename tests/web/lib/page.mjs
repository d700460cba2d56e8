// SPDX-License-Identifier: Apache-2.0
// A browser for tests of the chat page, and answers of a server that streams what a test wants.
import { patience } from './server.mjs';

// A page with what it asked of other servers, and its complaints: exceptions, and errors of the console.
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 750 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage(), strangers = [], complaints = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) strangers.push(request.url());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  await page.goto(`${url}/`);
  await page.locator('#examples button').first().waitFor();
  return { page, strangers, complaints };
}

// The body of a streamed answer with these pieces of text.
export const streamOf = (...pieces) => [...pieces.map((content, i) => JSON.stringify({
  choices: [{ index: 0, delta: { content }, finish_reason: i === pieces.length - 1 ? 'stop' : null }],
})), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');

// The page answers the next questions with these pieces.
export const answerWith = (page, ...pieces) => page.route('**/v1/chat/completions', (route) =>
  route.fulfill({ contentType: 'text/event-stream', body: streamOf(...pieces) }));
