// SPDX-License-Identifier: Apache-2.0
// How a turn looks: a question that can be edited, and an answer with its thoughts, its calls, how it ended, and what
// can be done about it.
import { button, copyBy, element, refill, remember, remembered } from './dom.js';
import { create } from './answer.js';
import { isEmpty } from './tree.js';

// What the answer took, by the server's clock: a stream may come to us in one burst.
function factsOf({ prompt, output, ms }) {
  const speed = 1000 * (output - 1) / (ms.total - ms.ttft);
  return [`${prompt.tokens} in, ${output} out`,
    ...(output > 1 && Number.isFinite(speed) ? [`${speed.toFixed(1)} tokens/s`] : []),
    `first token after ${Math.round(ms.ttft)} ms`];
}

// `siblings` are the branches at this place: an arrow leads to the former and the next one.
function branchesOf(turn, siblings, choose) {
  const box = element('span', 'branches'), at = siblings.findIndex(({ id }) => id === turn.id);
  const arrow = (label, title, other) => {
    const made = button(label, () => choose(other), { title });
    made.disabled = !other;
    return made;
  };
  box.append(arrow('‹', 'Former branch', siblings[at - 1]),
    element('span', '', `${at + 1}/${siblings.length}`), arrow('›', 'Next branch', siblings[at + 1]));
  return box;
}

// A turn's view has `root`, and refresh(siblings) after the turn or its branches have changed.
export class QuestionView {
  constructor(turn, page) {
    this.turn = turn;
    this.page = page;
    this.root = element('article', 'turn mine');
    this.root.setAttribute('aria-label', 'You');
    this.text = element('div', 'text', turn.text);
    this.actions = element('div', 'actions');
    this.root.append(element('h2', 'unseen', 'You'), this.text, this.actions);
  }

  refresh(siblings) {
    if (this.text.scrollHeight > this.text.clientHeight) this.text.tabIndex = 0; // a long one is scrolled by keys, too
    const copy = button('Copy', () => copyBy(this.turn.text, copy));
    refill(this.actions, ...(siblings.length > 1 ? [branchesOf(this.turn, siblings, this.page.choose)] : []),
      copy, button('Edit', () => this.edit()));
  }

  // The former question stays, as a branch.
  edit() {
    if (this.form) return;
    this.form = element('form', 'edit');
    const box = element('textarea');
    box.value = this.turn.text;
    box.rows = Math.min(12, this.turn.text.split('\n').length + 1);
    box.setAttribute('aria-label', 'Edit your question');
    const send = element('button', 'primary', 'Send');
    const close = () => {
      this.form.replaceWith(this.text);
      this.form = null;
      this.actions.hidden = false;
      this.actions.lastChild.focus();
    };
    const submit = () => {
      if (this.page.askAgain(this.turn, box.value)) close();
    };
    box.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') close();
      else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      submit();
    });
    this.form.append(box, send, button('Cancel', close));
    this.actions.hidden = true;
    this.text.replaceWith(this.form);
    box.focus();
  }
}

// A form for the results of calls, one field each; `texts` are their first values. send(results): [{ id, name, text }].
function resultsForm(calls, texts, send) {
  const form = element('form', 'edit'), button = element('button', 'primary', calls.length > 1 ? 'Send the results' : 'Send the result');
  const boxes = calls.map(({ function: { name } }, i) => {
    const label = element('label', '', `Result of ${name}`), box = element('textarea');
    box.rows = 2;
    box.value = texts[i] ?? '';
    label.append(box);
    form.append(label);
    return box;
  });
  form.append(button);
  const submit = () => send(calls.map(({ id, function: { name } }, i) => ({ id, name, text: boxes[i].value })));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  form.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    submit();
  });
  return form;
}

function callBox(title, text) {
  const box = element('figure', 'call'), frame = element('pre');
  frame.tabIndex = 0;
  frame.append(element('code', '', text));
  box.append(element('figcaption', '', title), frame);
  return box;
}

// What the reader entered as the results of an answer's calls.
export class ResultsView {
  constructor(turn, page) {
    this.turn = turn;
    this.page = page;
    this.root = element('article', 'turn mine');
    this.root.setAttribute('aria-label', 'Result');
    this.text = element('div', 'text');
    this.text.append(...turn.results.map(({ name, text }) => callBox(`${name} returned`, text)));
    this.actions = element('div', 'actions');
    this.root.append(element('h2', 'unseen', 'Result'), this.text, this.actions);
  }

  refresh(siblings) {
    refill(this.actions, ...(siblings.length > 1 ? [branchesOf(this.turn, siblings, this.page.choose)] : []),
      button('Edit', () => this.edit()));
  }

  edit() {
    const { turn, page } = this, calls = turn.results.map(({ id, name }) => ({ id, function: { name } }));
    const close = () => {
      form.replaceWith(this.text);
      this.actions.hidden = false;
      this.actions.lastChild.focus();
    };
    const form = resultsForm(calls, turn.results.map(({ text }) => text), (results) => {
      if (page.giveResults(turn.parent, results)) close();
    });
    form.append(button('Cancel', close));
    form.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      close();
    });
    this.text.replaceWith(form);
    this.actions.hidden = true;
    form.querySelector('textarea').focus();
  }
}

export class AnswerView {
  constructor(turn, page) {
    this.turn = turn;
    this.page = page;
    this.root = element('article', 'turn');
    this.root.setAttribute('aria-label', 'Answer');
    this.body = element('div', 'answer');
    this.calls = element('div', 'calls');
    this.results = element('div', 'results');
    this.state = element('div', 'state');
    this.actions = element('div', 'actions');
    this.root.append(element('h2', 'unseen', 'Answer'), this.body, this.calls, this.results, this.state, this.actions);
    this.shown = '';
    this.shownThought = '';
    this.began = performance.now();
  }

  // Shows what came since the last call.
  paint() {
    const { turn } = this, thought = turn.thought ?? '';
    const grew = thought !== this.shownThought || turn.text !== this.shown || turn.calls?.length;
    if (thought !== this.shownThought) {
      if (!this.thinking) this.openThinking();
      this.thoughts.append(thought.slice(this.shownThought.length));
      this.shownThought = thought;
    }
    if (turn.text && turn.thoughtMs === undefined && this.busy) this.endThinking();
    if (turn.text !== this.shown) {
      if (!this.renderer) {
        this.body.replaceChildren();
        // JSON of a schema is no Markdown.
        this.renderer = create(this.body, { plain: Boolean(turn.params?.response_format), around: this.page.following });
        this.shown = '';
      }
      this.renderer.append(turn.text.slice(this.shown.length));
      this.shown = turn.text;
    }
    if (turn.calls?.length) this.showCalls();
    if (this.waiting && grew) this.wait(null);
    this.hasGrown ||= grew;
    this.open ||= grew;
  }

  openThinking() {
    this.thinking = element('details', 'thinking');
    this.thinking.open = remembered('show-thinking', 'yes') === 'yes';
    this.summary = element('summary', '', this.turn.thoughtMs === undefined ? 'Thinking…' : this.thoughtFor());
    this.summary.addEventListener('click', () => remember('show-thinking', this.thinking.open ? 'no' : 'yes'));
    const text = element('div');
    this.thinking.append(this.summary, text);
    this.body.before(this.thinking);
    this.thoughts = create(text, { plain: true, around: this.page.following });
  }

  endThinking() {
    if (this.turn.thought) this.turn.thoughtMs = performance.now() - this.began;
    if (this.summary) this.summary.textContent = this.thoughtFor();
  }

  thoughtFor() {
    return `Thought for ${(this.turn.thoughtMs / 1000).toFixed(1)} s`;
  }

  showCalls() {
    refill(this.calls, ...this.turn.calls.filter(Boolean).map((call) => {
      let text = call.function.arguments;
      try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not whole yet, or not JSON */ }
      return callBox(`calls ${call.function.name}`, text);
    }));
  }

  // Where the last answer calls, its reader enters what comes of it.
  askForResults() {
    const { turn, page } = this, asks = turn.state === 'done' && turn.calls?.length && page.isLast(turn);
    if (!asks) this.results.replaceChildren();
    else if (!this.results.firstChild)
      this.results.append(resultsForm(turn.calls.filter(Boolean), [], (results) => page.giveResults(turn.id, results)));
  }

  // A line that says what is waited for; null: nothing. `kind` is what `waiting` says meanwhile.
  wait(text, actions = [], kind = 'yes') {
    this.waiting = text === null ? null : kind;
    const line = element('p', 'waiting', text ?? '');
    line.append(...actions);
    this.state.replaceChildren(...(text === null ? [] : [line]));
  }

  // Shows what the stream's last comment says of the wait; null: none has come.
  waitFor(comment, seconds) {
    const [, ready, total] = /^prompt (\d+) of (\d+)$/.exec(comment ?? '') ?? [];
    const ahead = /^waiting, (\d+(?: or more)?) ahead$/.exec(comment ?? '')?.[1];
    if (total) {
      const bar = element('progress'), text = `Reading the prompt: ${Math.floor(100 * ready / total)} %`;
      bar.setAttribute('aria-label', 'Reading the prompt');
      Object.assign(bar, { max: total, value: ready });
      this.wait(text, [bar]);
    } else if (ahead) this.wait(`In the server's queue: ${ahead} ahead, ${seconds} s.`);
    else this.wait(comment === null ? `Waiting for the server, ${seconds} s.`
      : `The question waits in the server's queue or is being read, ${seconds} s.`);
  }

  // Another tab writes it.
  setBusyElsewhere(busy) {
    if (this.busy === busy || (busy && this.turn.state !== 'writing') || this.ours) return;
    this.setBusy(busy);
    this.ours = false;
  }

  setBusy(busy) {
    this.busy = this.ours = busy;
    this.hasGrown = false;
    this.root.classList.toggle('busy', busy);
    this.root.setAttribute('aria-busy', String(busy));
    if (busy) {
      this.began = performance.now();
      this.renderer = null; // one that has ended is not appended to
      this.shown = '';
      this.actions.replaceChildren();
      this.wait(null);
    }
  }

  refresh(siblings) {
    this.paint();
    if (this.busy) {
      this.results.replaceChildren();
      return;
    }
    this.askForResults();
    const { turn, page } = this;
    if (turn.thought && turn.thoughtMs === undefined && this.summary) this.summary.textContent = 'Thought';
    if (this.open) {
      this.thoughts?.end();
      this.renderer?.end();
      this.open = false;
    }
    const came = !isEmpty(turn) || Boolean(turn.thought);
    const again = button(turn.state === 'failed' ? 'Try again' : 'Regenerate', () => page.regenerate(turn));
    const goOn = came && turn.params ? [button('Continue', () => page.goOn(turn))] : [];
    if (turn.state === 'failed') refill(this.state, this.failure(came, [...goOn, again]));
    else if (turn.state === 'writing') refill(this.state, this.failure(came, [...goOn, button('Try again', () => page.regenerate(turn))],
      'This answer was not finished: the page was closed or reloaded while it came.'));
    else refill(this.state, ...this.facts());
    const copy = button('Copy', () => copyBy(turn.text, copy));
    const ended = turn.state !== 'failed' && turn.state !== 'writing';
    refill(this.actions, ...(siblings.length > 1 ? [branchesOf(turn, siblings, page.choose)] : []),
      ...(turn.text ? [copy] : []), ...(ended ? [again] : []),
      ...(ended && turn.reason !== 'stop' && turn.reason !== 'tool_calls' ? goOn : []));
  }

  facts() {
    const { turn } = this, parts = [], facts = turn.receipt ? factsOf(turn.receipt) : [];
    if (turn.reason === 'length') facts.push('cut at the length limit');
    if (turn.reason === 'stopped') facts.push('stopped');
    if (isEmpty(turn) && turn.reason)
      parts.push(element('p', 'empty', turn.reason === 'stopped' ? 'Stopped before any text came.'
        : `The model ended ${turn.thought ? 'after its thoughts, ' : ''}without an answer.`));
    if (facts.length) parts.push(element('p', 'facts', facts.join(' · ')));
    return parts;
  }

  failure(came, actions, text) {
    const { turn } = this, box = element('div', 'failure');
    if (turn.fresh) box.setAttribute('role', 'alert'); // one of an earlier visit does not interrupt
    if (turn.error) box.append(element('p', '', turn.error));
    if (text) box.append(element('p', '', text));
    else if (came) box.append(element('p', '', 'The engine could not finish this answer. What came is kept.'));
    if (turn.code === 'context_length_exceeded')
      actions.unshift(button('Edit the question', () => this.page.editQuestion(turn)));
    box.append(...actions);
    return box;
  }
}
