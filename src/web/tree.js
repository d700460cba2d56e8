// SPDX-License-Identifier: Apache-2.0
// A conversation is a tree of turns: each names its parent. An edited question and a regenerated answer are siblings
// of the former ones. The page shows the path from the root to one leaf.

const byTime = (a, b) => a.at - b.at || (a.id < b.id ? -1 : 1);

// `turns` is a Map of the conversation's turns by id. [] if the leaf is not there.
export function pathTo(turns, leaf) {
  const path = [];
  for (let turn = turns.get(leaf); turn && !path.includes(turn); turn = turns.get(turn.parent)) path.unshift(turn);
  return path;
}

export function childrenOf(turns, parent) {
  return [...turns.values()].filter((turn) => turn.parent === parent).sort(byTime);
}

export const siblingsOf = (turns, turn) => childrenOf(turns, turn.parent);

// The newest leaf below a turn (null: of the whole tree).
export function newestLeaf(turns, id) {
  const seen = new Set(); // an imported file may have a circle
  for (let children; !seen.has(id) && (children = childrenOf(turns, id)).length;) {
    seen.add(id);
    id = children.at(-1).id;
  }
  return id;
}

// What an answer said: a text, or calls.
export const isEmpty = (turn) => !turn.text && !turn.calls?.length;

// The messages of a prompt. A question without an answer, and that answer, are left out, but for the last question.
export function messagesOf(path, system) {
  const messages = system ? [{ role: 'system', content: system }] : [];
  path.forEach((turn, i) => {
    const next = path[i + 1];
    if (turn.role === 'user') {
      if (next && isEmpty(next)) return;
      messages.push({ role: 'user', content: turn.text });
    } else if (turn.role === 'tool') {
      for (const { id, text } of turn.results) messages.push({ role: 'tool', tool_call_id: id, content: text });
    } else if (!isEmpty(turn)) {
      messages.push({ role: 'assistant', content: turn.text || null,
        ...(turn.calls?.length ? { tool_calls: turn.calls } : {}) });
    }
  });
  return messages;
}

export function titleOf(text) {
  const line = text.trim().split('\n').find((one) => one.trim()) ?? '';
  return line.length > 60 ? `${line.slice(0, 59)}…` : line || 'Untitled';
}
