// SPDX-License-Identifier: Apache-2.0
// Answers of a server that streams what a test wants.

// The body of a streamed answer with these pieces of text.
export const streamOf = (...pieces) => [...pieces.map((content, i) => JSON.stringify({
  choices: [{ index: 0, delta: { content }, finish_reason: i === pieces.length - 1 ? 'stop' : null }],
})), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');

// The page answers the next questions with these pieces.
export const answerWith = (page, ...pieces) => page.route('**/v1/chat/completions', (route) =>
  route.fulfill({ contentType: 'text/event-stream', body: streamOf(...pieces) }));
