// SPDX-License-Identifier: Apache-2.0
// Talks to the server: one answer is asked for, read, and continued where the connection broke. All URLs are relative:
// a proxy may serve the page below a path of its own.
import { isEmpty } from './tree.js';

// The server refused, or could not finish. `code` is its own, or the status.
export class Refusal extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

// The server is away or busy; it is worth coming back. `seconds`: when it said so.
class Away extends Error {
  constructor(message, seconds = 0) {
    super(message);
    this.seconds = seconds;
  }
}

// An answer that is asked for once more is another one.
class Deviated extends Error {}

const passing = ['starting', 'draining', 'overloaded', 'tokenizer_busy', 'ledger_behind', 'queue_full'];
const secondsMax = 60; // longer than that, a reader decides

async function refusalOf(response) {
  let error = {};
  try { error = (await response.json()).error ?? {}; } catch { /* not ours: the status must do */ }
  const message = error.message ?? `The server answered with status ${response.status}.`;
  const after = Number(response.headers.get('Retry-After'));
  const comes = passing.includes(error.code) || (response.status === 429 && after > 0) || [502, 504].includes(response.status);
  return comes && after <= secondsMax ? new Away(message, after) : new Refusal(message, error.code ?? response.status);
}

// The events of a text/event-stream, parsed, and { comment }; ends at [DONE].
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
      if (line.startsWith(':')) yield { comment: line.slice(1).trim() };
      if (!line.startsWith('data:')) continue;
      const data = line.slice(5).trim();
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}

// Adds a chunk's pieces of calls to the list.
function addCalls(calls, pieces) {
  for (const { index, id, type, function: named, custom } of pieces) {
    calls[index] ??= { id, type: type ?? 'function', function: { name: '', arguments: '' } };
    const call = calls[index];
    if (id) call.id = id;
    call.function.name += (named ?? custom)?.name ?? '';
    call.function.arguments += named?.arguments ?? custom?.input ?? '';
  }
}

// Takes an answer that is asked for a second time, with the same seed. What came already stays; what follows is new.
class Replay {
  constructor(turn) {
    this.turn = turn;
    this.thought = '';
    this.text = '';
    this.calls = [];
  }

  take(delta) {
    const { turn } = this;
    this.thought += delta.reasoning_content ?? '';
    this.text += delta.content ?? '';
    addCalls(this.calls, delta.tool_calls ?? []);
    const had = turn.thought ?? '';
    if (!(had.startsWith(this.thought) || (!turn.text && this.thought.startsWith(had)))) throw new Deviated();
    if (this.text && this.thought.length < had.length) throw new Deviated();
    if (!(turn.text.startsWith(this.text) || this.text.startsWith(turn.text))) throw new Deviated();
    if (this.thought.length > had.length) turn.thought = this.thought;
    if (this.text.length > turn.text.length) turn.text = this.text;
    if (this.calls.length) turn.calls = this.calls;
  }

  end() {
    if (this.text.length < this.turn.text.length) throw new Deviated();
  }
}

class Appending {
  constructor(turn) { this.turn = turn; }

  take(delta) {
    const { turn } = this;
    if (delta.reasoning_content) turn.thought = (turn.thought ?? '') + delta.reasoning_content;
    turn.text += delta.content ?? '';
    if (delta.tool_calls) addCalls(turn.calls ??= [], delta.tool_calls);
  }

  end() {}
}

export class Server {
  constructor() {
    this.key = '';
    this.model = null;
    this.tokensMax = 0;
    this.onModel = () => {};
    this.onKeyWanted = () => {};
  }

  headers(more = {}) {
    return this.key ? { ...more, Authorization: `Bearer ${this.key}` } : more;
  }

  post(path, body, signal) {
    return fetch(path, { method: 'POST', headers: this.headers({ 'Content-Type': 'application/json' }),
      body: JSON.stringify(body), signal });
  }

  // Asks for the model's name; false if the server wants a key.
  async greet() {
    const response = await fetch('v1/models', { headers: this.headers() });
    if (response.status === 401) {
      this.onKeyWanted();
      return false;
    }
    const [first] = (await response.json()).data;
    this.model = first.id;
    this.tokensMax = first.max_model_len ?? 0;
    this.onModel();
    return true;
  }

  // null: unknown; Infinity: more than fit.
  async countTokens(text, signal) {
    const response = await this.post('tokenize', { prompt: text, add_special_tokens: false }, signal);
    const answer = await response.json();
    if (response.ok) return answer.count;
    return answer.error?.code === 'context_length_exceeded' ? Infinity : null;
  }

  // Resolves when the server is there again. onWait(message, now): a reader may call now() to ask at once.
  async comeBack(away, { signal, onWait }) {
    let wake;
    const now = () => wake();
    signal.addEventListener('abort', now);
    window.addEventListener('online', now);
    onWait(away.message, now);
    for (let seconds = away.seconds || 0.5; ; seconds = Math.min(2 * seconds, 10)) {
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, 1000 * seconds);
      });
      if (signal.aborted) break;
      try {
        const { status } = await fetch('health', { signal });
        if (status >= 500) continue;
        if (this.model) await this.greet().catch(() => {});
        break;
      } catch {
        if (signal.aborted) break;
      }
    }
    signal.removeEventListener('abort', now);
    window.removeEventListener('online', now);
  }

  async #ask(body, signal) {
    for (let again = true; ; again = false) {
      if (this.model) body.model = this.model;
      let response;
      try {
        response = await this.post('v1/chat/completions', body, signal);
      } catch (error) {
        if (signal.aborted) throw error;
        throw new Away(`The server cannot be reached (${error.message}).`);
      }
      if (response.ok) return response;
      const refusal = await refusalOf(response);
      if (response.status === 401) this.onKeyWanted();
      if (refusal.code !== 'model_not_found' || !again) throw refusal;
      this.model = null; // the server has another one now
      if (!await this.greet().catch(() => false)) throw refusal;
    }
  }

  // Writes the answer to `messages` into the turn. `mode`: 'new', 'replay' (asks for the same answer once more and
  // goes on behind what came) or 'prefix' (the model goes on behind what it wrote).
  async #attempt(turn, messages, mode, { signal, onText, onAlive }) {
    const body = { ...turn.params, messages, stream: true, return_receipt: true };
    if (mode === 'prefix')
      body.messages = [...messages, { role: 'assistant', prefix: true, content: turn.text || `<think>\n${turn.thought ?? ''}` }];
    const inner = new AbortController(), stop = () => inner.abort();
    signal.addEventListener('abort', stop);
    try {
      const response = await this.#ask(body, inner.signal);
      const writer = mode === 'replay' ? new Replay(turn) : new Appending(turn);
      let reason = null;
      for await (const event of readEvents(response)) {
        if (event.comment !== undefined) onAlive(event.comment);
        if (event.error)
          throw passing.includes(event.error.code) ? new Away(event.error.message) : new Refusal(event.error.message, event.error.code);
        const choice = event.choices?.[0];
        if (choice?.delta) {
          writer.take(choice.delta);
          onText();
        }
        if (choice?.finish_reason) reason = choice.finish_reason;
        if (event.receipt) turn.receipt = receiptOf(event.receipt);
      }
      if (reason === 'insufficient_system_resource') throw new Refusal('The engine failed, or had no memory left.', reason);
      if (!reason) throw new Away('The connection broke before the answer ended.');
      writer.end();
      return reason;
    } catch (error) {
      if (signal.aborted || error instanceof Refusal || error instanceof Away || error instanceof Deviated) throw error;
      throw new Away(`The connection broke before the answer ended (${error.message}).`);
    } finally {
      signal.removeEventListener('abort', stop);
      inner.abort();
    }
  }

  // Resolves with the reason of the answer's end, 'stopped' for the reader's own; throws a Refusal.
  async write(turn, messages, mode, watcher) {
    for (;;) {
      try {
        return await this.#attempt(turn, messages, mode, watcher);
      } catch (error) {
        if (watcher.signal.aborted) return 'stopped';
        if (error instanceof Deviated) {
          if (turn.params.response_format || turn.params.tools)
            throw new Refusal('The server gives another answer now, and this one cannot be continued.', 'deviated');
          turn.continued = true;
          mode = 'prefix';
          continue;
        }
        if (!(error instanceof Away)) throw error;
        await this.comeBack(error, watcher);
        if (watcher.signal.aborted) return 'stopped';
        watcher.onBack();
        mode = modeOf(turn);
      }
    }
  }
}

// How an answer that broke off goes on. With its seed it is the same again, whatever the temperature; after it was
// continued behind its own words, it is not.
export function modeOf(turn) {
  if (isEmpty(turn) && !turn.thought) return 'new';
  return turn.continued || turn.params?.seed === undefined ? 'prefix' : 'replay';
}

const receiptOf = ({ prompt, output, ms }) =>
  ({ prompt: { tokens: prompt.tokens }, output, ms: { total: ms.total, ttft: ms.ttft } });
