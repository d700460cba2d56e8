// SPDX-License-Identifier: Apache-2.0
// Protects what people do with coding agents: each of them, as npm has it and as docs/clients.md starts it, reads a
// file, edits it and ends. What the model writes is decided here (tests/web/lib/puppet.mjs): the prompt asks for a look
// at the file, the file asks for the edit, and the edit's own text for the last words. So each step is taken only if
// the one before it came back to the model whole.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { deepseek } from '../web/lib/families.mjs';
import { Puppet, say } from '../web/lib/puppet.mjs';
import { root } from '../web/lib/server.mjs';
import { Desk, agents, versionOf } from './lib/agents.mjs';
import { Watch } from './lib/watch.mjs';

const key = 'sk-agent', model = 'puppet';
const TURNS = 10;

let server;
before(async () => { server = await Puppet.start({ names: model, accounts: [{ name: 'agent', key }], contextTokens: 131072 }); });
after(() => server?.stop());

// Agents that ask the model to think get thoughts, others a word ahead of the call.
const answer = (text) => say(`Well.</think>${text}`);
const call = (...calls) => answer(deepseek.calls(calls));

// Runs `work(desk, watch)` for an agent; nothing that was sent or answered on the way is against the API.
async function at(agent, work) {
  const watch = await Watch.start(server, { 'X-Api-Key': key });
  const desk = await Desk.start(agent, watch, { key, model });
  try {
    await work(desk, watch);
  } finally {
    watch.stop();
    await desk.stop();
  }
}

async function ask(desk, watch, prompt, last) {
  const { code, output } = await desk.ask(prompt);
  assert.equal(code, 0, output);
  assert.ok(output.includes(last), `${last} in ${output}`);
  assert.deepEqual(watch.failures, [], output);
  assert.deepEqual(watch.violations, []);
}

test('docs/clients.md lists the agents and their versions', async () => {
  const guide = await readFile(path.join(root, 'docs/clients.md'), 'utf8');
  const rows = [...guide.matchAll(/^\| (.*) \| `(.*)` \| ([\d.]+) \| `.*` \|$/gm)].map(([, ...cells]) => cells);
  assert.deepEqual(rows, agents.map((agent) => [agent.name, agent.npm ?? agent.package, versionOf(agent)]));
});

for (const agent of agents) {
  test(`${agent.name} ${versionOf(agent)} reads a file, edits it and ends`, () => at(agent, async (desk, watch) => {
    const text = (colour, more = '') => `colour: ${colour}${more}\n${'nothing\n'.repeat(40)}`;
    const edit = agent.edit(desk.file('notes.txt'), 'colour: red', `colour: blue ${answer('It is blue now.')}`);
    await desk.put('notes.txt', `${text('red')}${call(edit)}\n`);
    await ask(desk, watch, `Make it blue. ${call(agent.read(desk.file('notes.txt')))}`, 'It is blue now.');
    const edited = await readFile(desk.file('notes.txt'), 'utf8');
    assert.ok(edited.startsWith(text('blue', ` ${answer('It is blue now.')}`)), edited);
  }));
}

test('Claude Code searches for a tool that it held back, and the model reads what the tool is', () => {
  const [claude] = agents;
  return at(claude, async (desk, watch) => {
    await desk.put('found.txt', answer('It is there.'));
    const [searched, found] = [['ToolSearch', { query: 'select:NotebookEdit' }], claude.read(desk.file('found.txt'))];
    await ask(desk, watch, `Search. ${call(searched, found)}`, 'It is there.');
    const [before, behind] = watch.answers;
    assert.ok(behind.cached >= 0.9 * before.prompt, 'the tool stands behind what was said before');
    assert.ok(behind.prompt - before.prompt > 500, 'a description and a schema of hundreds of tokens');
  });
});

// Its tools and its system text; the task comes ahead of the rest.
test('Claude Code\'s next session finds in the cache what the last one left', () => at(agents[0], async (desk, watch) => {
  await ask(desk, watch, `Greet. ${answer('Good morning.')}`, 'Good morning.');
  await ask(desk, watch, `Greet again. ${answer('Good evening.')}`, 'Good evening.');
  const [, next] = watch.answers;
  assert.ok(next.cached >= 0.75 * next.prompt, `${next.cached} of ${next.prompt}`);
}));

// The requests of a conversation, those for its title and the like aside, which have no tools: all that the one before had
// and answered could be found in the cache.
function cacheOf(answers) {
  const turns = answers.filter(({ tools }) => tools);
  const sum = (list, of) => list.reduce((total, each, i) => total + of(each, i), 0);
  const later = turns.slice(1);
  const could = sum(later, ({ prompt }, i) => Math.min(prompt, turns[i].prompt + turns[i].answer));
  return { turns: turns.length, prompt: sum(turns, ({ prompt }) => prompt), cached: sum(later, ({ cached }) => cached), could };
}

for (const agent of agents) {
  test(`${agent.name} finds nine tenths of what it said before in the cache`, (t) => at(agent, async (desk, watch) => {
    const file = (turn) => desk.file(`step-${turn}.txt`);
    for (let turn = 1; turn <= TURNS; turn++)
      await desk.put(`step-${turn}.txt`, `${'This is a step.\n'.repeat(20)}${turn < TURNS ? call(agent.read(file(turn + 1))) : answer('All is read.')}\n`);
    await ask(desk, watch, `Read on. ${call(agent.read(file(1)))}`, 'All is read.');
    const { turns, prompt, cached, could } = cacheOf(watch.answers);
    t.diagnostic(`agent ${agent.name} ${versionOf(agent)}: ${turns} requests, ${prompt} prompt tokens; after the first ` +
      `${cached} of ${could} were in the cache, ${(100 * cached / could).toFixed(1)} %`);
    assert.equal(turns, TURNS + 1);
    assert.ok(cached >= 0.9 * could);
  }));
}
