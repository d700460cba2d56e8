// SPDX-License-Identifier: Apache-2.0
// Conversations as files. JSON has everything, branches and thoughts included; Markdown has the questions and the
// answers of one path, and can be read back.
import { newId } from './dom.js';
import { titleOf } from './tree.js';

const format = 'fathom-conversations';

export function toJson(conversations, turns) {
  return `${JSON.stringify({ format, version: 1, conversations, turns }, null, 1)}\n`;
}

const marks = { user: '<!-- turn: question -->', assistant: '<!-- turn: answer -->' };
const headings = { user: '## Question', assistant: '## Answer' };
const roleOf = ({ role }) => (role === 'assistant' ? role : 'user'); // Markdown has no calls: their results are questions

export function toMarkdown(conversation, path) {
  const parts = path.map((turn) =>
    `${marks[roleOf(turn)]}\n${headings[roleOf(turn)]}\n\n${turn.text.replace(/^(\\*<!-- turn:)/gm, '\\$1')}\n`);
  return `# ${conversation.title.replaceAll('\n', ' ')}\n\n${parts.join('\n')}`;
}

function fromMarkdown(text, now) {
  const [head, ...parts] = text.replaceAll('\r\n', '\n').split(/^(?=<!-- turn: (?:question|answer) -->$)/m);
  if (!parts.length) return null;
  const conversation = { id: newId(), created: now, changed: now, named: true };
  let parent = null;
  const turns = parts.map((part, i) => {
    const role = part.startsWith(marks.user) ? 'user' : 'assistant';
    const body = part.slice(marks[role].length + 1).replace(`${headings[role]}\n\n`, '')
      .replace(i < parts.length - 1 ? /\n\n$/ : /\n$/, '');
    const turn = { id: newId(), conversation: conversation.id, parent, role, at: now + i, state: 'done',
      text: body.replace(/^\\(\\*<!-- turn:)/gm, '$1') };
    parent = turn.id;
    return turn;
  });
  conversation.title = /^# (.+)$/m.exec(head)?.[1] ?? titleOf(turns[0].text);
  conversation.leaf = parent;
  return { conversations: [conversation], turns };
}

const isText = (value) => typeof value === 'string';
const isTime = (value) => Number.isFinite(value);
const isId = (value) => isText(value) && value.length > 0 && value.length <= 64;

const isConversation = (one) => one && isId(one.id) && isText(one.title) && isTime(one.created) && isTime(one.changed) &&
  (one.leaf === null || isId(one.leaf));
const isMaybe = (value, holds) => value === undefined || value === null || holds(value);
const isCall = (call) => isText(call?.function?.name) && isText(call.function.arguments);
const isResult = (one) => [one?.id, one?.name, one?.text].every(isText);
const isReceipt = ({ prompt, output, ms }) => [prompt?.tokens, output, ms?.total, ms?.ttft].every(isTime);
const isTurn = (one) => one && isMaybe(one.thought, isText) && isMaybe(one.thoughtMs, isTime) && isMaybe(one.error, isText) &&
  isMaybe(one.calls, (calls) => Array.isArray(calls) && calls.every(isCall)) && isMaybe(one.receipt, isReceipt) &&
  isMaybe(one.params, (params) => typeof params === 'object') && isId(one.id) && isId(one.conversation) && (one.parent === null || isId(one.parent)) &&
  (one.role === 'tool' ? Array.isArray(one.results) && one.results.every(isResult) : ['user', 'assistant'].includes(one.role)) && isText(one.text) && isTime(one.at);

// A record with the known members alone: what a file says beyond them means nothing here.
const only = (record, names) => Object.fromEntries(names.filter((name) => name in record).map((name) => [name, record[name]]));
const ofConversation = ['id', 'title', 'named', 'created', 'changed', 'leaf'];
const ofTurn = ['id', 'conversation', 'parent', 'role', 'text', 'at', 'state', 'thought', 'thoughtMs', 'calls', 'results', 'error',
  'receipt', 'reason', 'params', 'continued'];

// { conversations, turns } of a file's text; throws an Error in words for the reader.
export function fromFile(name, text, now) {
  let read = null;
  try { read = JSON.parse(text); } catch { /* Markdown? */ }
  if (read === null) {
    const found = fromMarkdown(text, now);
    if (!found) throw new Error(`${name} is neither JSON nor Markdown that this page exported.`);
    return found;
  }
  if (read.format !== format || !Array.isArray(read.conversations) || !Array.isArray(read.turns))
    throw new Error(`${name} is JSON, but not of conversations: its "format" must be "${format}".`);
  if (read.version !== 1) throw new Error(`${name} has version ${read.version}; this page reads version 1.`);
  const ids = new Set(read.conversations.map((one) => one?.id));
  const bad = read.conversations.find((one) => !isConversation(one)) ?? read.turns.find((one) => !isTurn(one)) ??
    read.turns.find((one) => !ids.has(one.conversation));
  if (bad) throw new Error(`${name} has a record that is not valid: ${JSON.stringify(bad).slice(0, 80)}`);
  return {
    conversations: read.conversations.map((one) => only(one, ofConversation)),
    turns: read.turns.map((one) => ({ ...only(one, ofTurn), state: one.state === 'writing' ? 'failed' : one.state })),
  };
}
