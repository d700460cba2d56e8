// SPDX-License-Identifier: Apache-2.0
// The chat page: one conversation, kept in this page alone, over /v1/chat/completions. All URLs are relative: a proxy
// may serve the page below a path of its own.

const byId = (id) => document.getElementById(id);
const log = byId('log'), scroller = byId('scroll'), welcome = byId('welcome');
const question = byId('question'), send = byId('send'), stop = byId('stop');
const temperature = byId('temperature'), temperatureValue = byId('temperature-value');
const announcer = byId('announcer');

const tinyExamples = [
  'What is 4728 + 915?', 'How many r in strawberry?', 'what is an otter',
  'Tell me a story about a fox.', 'Which is larger, 4071 or 4107?', 'Who are you?',
];
const otherExamples = [
  'Why is the sky blue?', 'Write a haiku about the deep sea.',
  'What is the sum of the first 100 whole numbers?',
];

let model = null;        // the server's name for it
let key = remembered('fathom-api-key', ''); // '': the server has asked for none
let messages = [];       // the model's prompt: {role, content}
let chosenTemperature = null; // null: the model's own
let running = null;      // AbortController of the answer that is being written

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// ---- settings ----

function remembered(key, fallback) {
  try { return localStorage.getItem(key) ?? fallback; } catch { return fallback; }
}

function remember(key, value) {
  try { localStorage.setItem(key, value); } catch { /* private windows may refuse */ }
}

temperature.addEventListener('input', () => {
  chosenTemperature = Number(temperature.value);
  temperatureValue.textContent = chosenTemperature.toFixed(1);
});

// ---- the key of a server with accounts ----

function headersWith(more) {
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

function showDoor() {
  byId('door').hidden = false;
  byId('door-text').textContent = key ? 'The server does not know this key.' : '';
  byId('key').focus();
}

byId('door').addEventListener('submit', (event) => {
  event.preventDefault();
  key = byId('key').value.trim();
  remember('fathom-api-key', key);
  start();
});

// ---- text ----

// Inline code and bold text; everything else stays as it is.
function addInline(parent, text) {
  for (const piece of text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
    if (/^`[^`]+`$/.test(piece)) parent.append(element('code', '', piece.slice(1, -1)));
    else if (/^\*\*[^*]+\*\*$/.test(piece)) parent.append(element('strong', '', piece.slice(2, -2)));
    else if (piece) parent.append(piece);
  }
}

// Paragraphs and fenced code, made of text nodes only: an answer can never become markup.
function renderAnswer(parent, text) {
  const blocks = [];
  let code = null;
  for (const line of text.split('\n')) {
    if (/^\s*```/.test(line)) {
      code = code ? null : { code: true, lines: [] };
      if (code) blocks.push(code);
    } else if (code) {
      code.lines.push(line);
    } else if (!line.trim()) {
      blocks.push(null);
    } else {
      const last = blocks.at(-1);
      if (last && !last.code) last.lines.push(line);
      else blocks.push({ code: false, lines: [line] });
    }
  }
  parent.replaceChildren(...blocks.filter(Boolean).map((block) => {
    if (!block.code) {
      const paragraph = element('p');
      addInline(paragraph, block.lines.join('\n'));
      return paragraph;
    }
    const frame = element('pre');
    frame.append(element('code', '', block.lines.join('\n')));
    return frame;
  }));
}

// ---- one answer on the page ----

// What the answer took, by the server's clock: a stream may come to us in one burst.
function factsOf({ prompt, output, ms }) {
  const speed = 1000 * (output - 1) / (ms.total - ms.ttft);
  return [`${prompt.tokens} in, ${output} out`,
    ...(output > 1 && Number.isFinite(speed) ? [`${speed.toFixed(1)} tokens/s`] : []),
    `first token after ${Math.round(ms.ttft)} ms`];
}

class AnswerView {
  constructor() {
    this.root = element('article', 'turn busy');
    this.root.setAttribute('aria-label', 'Answer');
    this.root.setAttribute('aria-busy', 'true');
    this.body = element('div', 'answer');
    this.root.append(this.body);
    log.append(this.root);
    this.thought = '';
    this.text = '';
    this.began = performance.now();
    this.painting = 0;
  }

  add(delta) {
    if (!delta.reasoning_content && !delta.content) return;
    this.thought += delta.reasoning_content ?? '';
    if (delta.content && !this.text) this.endThinking();
    this.text += delta.content ?? '';
    this.painting ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.painting);
    this.painting = 0;
    const followed = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    if (this.thought && !this.thinking) this.openThinking();
    if (this.thinking) this.thinkingText.textContent = this.thought;
    if (this.text) renderAnswer(this.body, this.text);
    if (followed) scrollToEnd();
  }

  openThinking() {
    this.thinking = element('details', 'thinking');
    this.thinking.open = remembered('fathom-show-thinking', 'yes') === 'yes';
    this.summary = element('summary', '', this.thoughtMs === undefined ? 'Thinking…' : this.thoughtFor());
    this.summary.addEventListener('click', () =>
      remember('fathom-show-thinking', this.thinking.open ? 'no' : 'yes'));
    this.thinkingText = element('div');
    this.thinking.append(this.summary, this.thinkingText);
    this.body.before(this.thinking);
  }

  endThinking() {
    this.thoughtMs = performance.now() - this.began;
    if (this.summary) this.summary.textContent = this.thoughtFor();
  }

  thoughtFor() {
    return `Thought for ${(this.thoughtMs / 1000).toFixed(1)} s`;
  }

  finish({ reason, receipt, error, retry }) {
    if (this.thought && this.thoughtMs === undefined) this.endThinking();
    this.paint();
    this.root.classList.remove('busy');
    this.root.setAttribute('aria-busy', 'false');
    const facts = receipt ? factsOf(receipt) : [];
    if (reason === 'length') facts.push('cut at the length limit');
    if (reason === 'stopped') facts.push('stopped');
    if (facts.length && !error) this.root.append(element('p', 'facts', facts.join(' · ')));
    if (error) this.showError(error, retry);
    scrollToEnd();
  }

  showError(error, retry) {
    const box = element('p', 'failure', error);
    box.setAttribute('role', 'alert');
    const again = element('button', '', 'Try again');
    again.type = 'button';
    again.addEventListener('click', () => {
      this.root.remove();
      retry();
    });
    box.append(again);
    this.root.append(box);
  }
}

function scrollToEnd() {
  scroller.scrollTop = scroller.scrollHeight;
}

// ---- talking to the server ----

async function errorOf(response) {
  let said = '';
  try { said = (await response.json()).error.message; } catch { /* not ours: the status must do */ }
  if (said) return said;
  return `The server answered with status ${response.status}.`;
}

// The events of a text/event-stream, parsed; ends at [DONE].
async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    pending += value;
    const lines = pending.split('\n');
    pending = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;
      const data = line.slice(5).trim();
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}

async function streamAnswer(view, signal) {
  const body = { messages, stream: true, return_receipt: true };
  if (model) body.model = model;
  if (chosenTemperature !== null) body.temperature = chosenTemperature;
  const response = await fetch('v1/chat/completions', {
    method: 'POST', headers: headersWith({ 'Content-Type': 'application/json' }),
    body: JSON.stringify(body), signal,
  });
  if (response.status === 401) showDoor();
  if (!response.ok) return { error: await errorOf(response) };
  let reason = null, receipt = null;
  for await (const event of readEvents(response)) {
    if (event.error) return { error: event.error.message };
    const choice = event.choices?.[0];
    if (choice?.delta) view.add(choice.delta);
    if (choice?.finish_reason) reason = choice.finish_reason;
    if (event.receipt) receipt = event.receipt;
  }
  return reason ? { reason, receipt } : { error: 'The connection broke before the answer ended.' };
}

async function answer() {
  const view = new AnswerView();
  const controller = running = new AbortController();
  showRunning();
  scrollToEnd();
  let result;
  try {
    result = await streamAnswer(view, controller.signal);
  } catch (failure) {
    result = controller.signal.aborted
      ? { reason: 'stopped' }
      : { error: `The server cannot be reached (${failure.message}).` };
  }
  if (!view.root.isConnected) return; // a new chat has begun
  if (running === controller) running = null;
  if (!result.error && view.text) messages.push({ role: 'assistant', content: view.text });
  else if (!result.error) messages.pop(); // stopped before any answer: the question was not asked
  view.finish({ ...result, retry: () => { if (!running) answer(); } });
  announcer.textContent = result.error ? '' : view.text;
  showRunning();
  question.focus();
}

// ---- controls ----

function showRunning() {
  stop.hidden = !running;
  send.hidden = Boolean(running);
  send.disabled = !question.value.trim();
  log.setAttribute('aria-live', running ? 'off' : 'polite');
}

function fitQuestion() {
  question.style.height = 'auto';
  question.style.height = `${question.scrollHeight}px`;
  showRunning();
}

function ask(text) {
  if (running || !text.trim()) return;
  // If its answer failed, a question is replaced by the next one.
  log.querySelectorAll('.failure').forEach((box) => box.querySelector('button')?.remove());
  if (messages.at(-1)?.role === 'user') messages.pop();
  welcome.hidden = true;
  messages.push({ role: 'user', content: text });
  const mine = element('article', 'turn mine', text);
  mine.setAttribute('aria-label', 'You');
  log.append(mine);
  question.value = '';
  fitQuestion();
  answer();
}

function newChat() {
  running?.abort();
  running = null;
  messages = [];
  log.replaceChildren();
  welcome.hidden = false;
  showRunning();
  question.focus();
}

byId('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  ask(question.value);
});

question.addEventListener('input', fitQuestion);
question.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask(question.value);
});

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') running?.abort();
});

stop.addEventListener('click', () => running?.abort());
byId('new-chat').addEventListener('click', newChat);

// ---- start ----

function showWelcome() {
  const tiny = !model || model.startsWith('tiny-r1');
  byId('welcome-text').textContent = tiny
    ? 'A very small model that thinks before it answers. It adds and multiplies, counts letters, ' +
      'defines common nouns and tells short stories; it knows little else.'
    : 'Everything you write stays between this page and your server.';
  byId('examples').replaceChildren(...(tiny ? tinyExamples : otherExamples).map((text) => {
    const item = element('li'), button = element('button', '', text);
    button.type = 'button';
    button.addEventListener('click', () => ask(text));
    item.append(button);
    return item;
  }));
}

async function start() {
  try {
    const response = await fetch('v1/models', { headers: headersWith({}) });
    byId('door').hidden = true;
    if (response.status === 401) return showDoor();
    model = (await response.json()).data[0].id;
    byId('model').textContent = model;
    document.title = `${model} – Fathom`;
  } catch {
    byId('model').textContent = 'server not reachable';
  }
  showWelcome();
  showRunning();
  question.focus();
}

start();
