// SPDX-License-Identifier: Apache-2.0
// Protects agents' prompts from missing the cache: ten turns as Claude Code, Codex, opencode and pi send them. What an
// agent sends again and no model reads must not keep the rest from being found, and a receipt says what was left out
// and where a prompt differs from the one before.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { deepseek } from './lib/families.mjs';
import { Puppet, say } from './lib/puppet.mjs';

let server, unchanged;

before(async () => {
  server = await Puppet.start();
  unchanged = await Puppet.start({ options: ['--agent-habits', 'off'] });
});

after(async () => {
  await server?.stop();
  await unchanged?.stop();
});

const turns = 10;
const hex = (n) => (0x1f3a5 + n * 7919).toString(16).padStart(5, '0');
const prose = (name, count) =>
  Array.from({ length: count }, (_, i) => `${name} rule ${i}: read a file before you change it, and say what you did.`).join('\n');

const parameters = (name) => ({
  type: 'object', properties: { [name]: { type: 'string', description: `The ${name}.` } }, required: [name],
  additionalProperties: false,
});
const functions = [['read', 'path'], ['edit', 'path'], ['bash', 'command'], ['grep', 'pattern']].map(([name, argument]) =>
  ({ name, description: `Runs ${name} in the working directory and returns its output.`, parameters: parameters(argument) }));

// The answer that a turn asks for: the mark stands in what the user, or the last tool, says.
const wish = (n) => say(`Turn ${n} needs a look.</think>I look.${deepseek.calls([['bash', { command: `ls ${n}` }]])}`);
const task = `Find out why the build fails, and repair it.${wish(0)}`;
// What happened in each turn before this one: the model thought, said something and called a tool.
const past = (n) => Array.from({ length: n }, (_, i) => ({
  thought: `Turn ${i} needs a look at the files.`, text: `I look at file ${i}.`, id: `call_${i}`, name: 'bash',
  args: { command: `sed -n 1,40p src/file_${i}.c` },
  result: `${prose(`file ${i}`, 4)}\n${wish(i + 1)}`,
}));

const ephemeral = { cache_control: { type: 'ephemeral' } };
const text = (words, more) => ({ type: 'text', text: words, ...more });

// ---- what each agent sends in its nth turn ----

const agents = {
  'Claude Code': (n) => ({
    path: '/v1/messages?beta=true',
    headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14', 'x-app': 'cli' },
    body: {
      model: 'puppet', max_tokens: 4000, stream: true, thinking: { type: 'adaptive' }, output_config: { effort: 'high' },
      metadata: { user_id: '{"device_id":"d","account_uuid":"","session_id":"s"}' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      system: [
        text(`x-anthropic-billing-header: cc_version=2.1.120.cf9; cc_entrypoint=cli; cch=${hex(n)};`),
        text('You are Claude Code, Anthropic\'s official CLI for Claude.', ephemeral),
        text(prose('claude', 60), ephemeral),
      ],
      tools: functions.map(({ parameters: input_schema, ...rest }) => ({ ...rest, input_schema, eager_input_streaming: true })),
      messages: [
        { role: 'user', content: [text('<system-reminder>\nToday\'s date is 2026-11-29.\n</system-reminder>'),
          text(task, n ? {} : ephemeral)] },
        ...past(n).flatMap(({ thought, text: words, id, args, result }, i) => [
          { role: 'assistant', content: [{ type: 'thinking', thinking: thought, signature: '' }, text(words),
            { type: 'tool_use', id, name: 'bash', input: args }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: result, ...i === n - 1 ? ephemeral : {} }] }]),
      ],
    },
  }),
  Codex: (n) => ({
    path: '/v1/responses',
    headers: { originator: 'codex_cli_rs', session_id: 's', conversation_id: 's' },
    body: {
      model: 'puppet', instructions: prose('codex', 60), stream: true, store: false, tool_choice: 'auto',
      parallel_tool_calls: true, prompt_cache_key: 's', include: ['reasoning.encrypted_content'],
      reasoning: { effort: 'high', summary: 'auto' },
      tools: [...functions.map((tool) => ({ type: 'function', strict: false, ...tool })), { type: 'web_search', external_web_access: false }],
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: '<permissions instructions>ask first</permissions instructions>' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: '<environment_context>\n  <cwd>/home/me</cwd>\n</environment_context>' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: task }] },
        ...past(n).flatMap(({ thought, text: words, id, args, result }, i) => [
          { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: thought }], encrypted_content: null },
          { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: words }] },
          { type: 'function_call', name: 'bash', arguments: JSON.stringify(args), call_id: id },
          { type: 'function_call_output', call_id: id, output: result }]),
      ],
    },
  }),
  opencode: (n) => ({
    path: '/v1/chat/completions',
    headers: { 'user-agent': 'opencode/1.0 ai-sdk/openai-compatible' },
    body: {
      model: 'puppet', max_tokens: 4000, stream: true, stream_options: { include_usage: true }, tool_choice: 'auto',
      tools: functions.map((tool) => ({ type: 'function', function: tool })),
      messages: [
        { role: 'system', content: prose('opencode', 60) },
        { role: 'system', content: '<env>\n  Working directory: /home/me\n  Today\'s date: Sun Nov 29 2026\n</env>' },
        { role: 'user', content: task },
        ...past(n).flatMap(({ thought, text: words, id, args, result }, i) => [
          { role: 'assistant', content: words, reasoning_content: thought,
            tool_calls: [{ id, type: 'function', function: { name: 'bash', arguments: JSON.stringify(args) } }] },
          { role: 'tool', tool_call_id: id, content: result }]),
      ],
    },
  }),
  // With cache marks as pi sets them for providers that want them: on the system message, the last tool, the last text.
  pi: (n) => ({
    path: '/v1/chat/completions',
    headers: {},
    body: {
      model: 'puppet', max_completion_tokens: 4000, stream: true, stream_options: { include_usage: true }, store: false,
      tools: functions.map((tool, i) => ({ type: 'function', function: { ...tool, strict: false, ...i === 3 ? ephemeral : {} } })),
      messages: [
        { role: 'system', content: [text(`${prose('pi', 60)}\nCurrent date: 2026-11-29`, ephemeral)] },
        { role: 'user', content: [text(task, n ? {} : ephemeral)] },
        ...past(n).flatMap(({ text: words, id, args, result }, i) => [
          { role: 'assistant', content: words,
            tool_calls: [{ id, type: 'function', function: { name: 'bash', arguments: JSON.stringify(args) } }] },
          { role: 'tool', tool_call_id: id, content: i === n - 1 ? [text(result, ephemeral)] : result }]),
      ],
    },
  }),
};

// ---- a session ----

async function send(to, { path, headers, body }) {
  const answer = await to.post(path, body,
    { headers: { 'Content-Type': 'application/json', 'X-Fathom-Receipt': '1', ...headers } });
  const stream = await answer.text();
  assert.equal(answer.status, 200, stream);
  const receipt = /"receipt":(\{.*\})\}\n/.exec(stream)?.[1];
  assert.ok(receipt, stream.slice(-2000));
  return { receipt: JSON.parse(receipt), warning: answer.headers.get('x-fathom-warning'), stream };
}

// What could be hit in a turn is the whole prompt of the turn before. Returns the share that was, after the first turn.
async function session(to, agent) {
  let could = 0, hit = 0, last;
  const seen = [];
  for (let n = 0; n < turns; n++) {
    seen.push(await send(to, agents[agent](n)));
    const { prompt } = seen.at(-1).receipt;
    if (last) [could, hit] = [could + last.tokens, hit + Math.min(prompt.hit, last.tokens)];
    last = prompt;
  }
  assert.ok(last.tokens > 3000, String(last.tokens));
  return { share: hit / could, seen };
}

for (const agent of Object.keys(agents)) {
  test(`ten turns of ${agent} find their prompts in the cache`, async (t) => {
    const { share, seen } = await session(server, agent);
    t.diagnostic(`${agent}: ${(100 * share).toFixed(1)} % of what could be hit`);
    assert.ok(share >= 0.9, `${share}`);
    for (const { receipt } of seen.slice(1)) assert.equal(receipt.differs, undefined); // the first may be like another agent's
    for (const { stream } of seen) assert.match(stream, /"name":"bash"/);
  });
}

test('what was left out stands in a header and in the receipt', async () => {
  const claude = await send(server, agents['Claude Code'](0));
  assert.match(claude.warning, /billing line.*--agent-habits/);
  assert.deepEqual(claude.receipt.left_out, ['billing_line', 'session_id']);
  const pi = await send(server, agents.pi(1));
  assert.match(pi.warning, /cache_control/);
  assert.deepEqual(pi.receipt.left_out, ['cache_control']);
  const opencode = await send(server, agents.opencode(1));
  assert.deepEqual([opencode.warning, opencode.receipt.left_out], [null, undefined]);
});

test('with --agent-habits off the billing line is read, and no token behind it is found', async (t) => {
  const { share, seen } = await session(unchanged, 'Claude Code');
  t.diagnostic(`Claude Code, --agent-habits off: ${(100 * share).toFixed(1)} % of what could be hit`);
  assert.ok(share < 0.2, `${share}`); // this template has the tools in front of the line
  assert.equal(seen[1].receipt.differs, 'message 1 (system)');
  assert.equal(seen[1].receipt.left_out, undefined);
});

test('a receipt names the part in which a prompt differs from the one before', async () => {
  const at = (n, change) => {
    const request = agents.opencode(n);
    change(request.body);
    return send(server, request);
  };
  const own = (body) => { body.cache_salt = 'differs'; };
  assert.equal((await at(0, own)).receipt.differs, undefined);
  assert.equal((await at(1, (body) => { own(body); body.tools.reverse(); })).receipt.differs, 'tools');
  const dated = await at(2, (body) => { own(body); body.tools.reverse(); body.messages[1].content += 'Mon'; });
  assert.equal(dated.receipt.differs, 'message 2 (system)');
  assert.ok(dated.receipt.prompt.hit < dated.receipt.prompt.tokens);
});
