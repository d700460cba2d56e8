// SPDX-License-Identifier: Apache-2.0
// The agents: how docs/clients.md starts each of them, and what its tools for files are called. An agent runs in a
// folder of its own with a home of its own; its program is the one that npm installed here.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { patience, root } from '../../web/lib/server.mjs';

const here = fileURLToPath(new URL('..', import.meta.url));
const modules = path.join(here, 'node_modules');
const node = process.execPath;

const platform = `linux-${process.arch}`;
const script = (...names) => [node, path.join(modules, ...names)];
const program = (...names) => [path.join(modules, ...names)];

// `read` and `edit` make a call of the agent's own tool: its name and arguments. `command` is the agent's program:
// no scripts of packages have run, so where a script would put a program in its place, the program is taken from its
// own package (`package`, where people install `npm`).
export const agents = [
  {
    name: 'Claude Code', package: '@anthropic-ai/claude-code', command: 'claude',
    run: program('@anthropic-ai', `claude-code-${platform}`, 'claude'),
    read: (file) => ['Read', { file_path: file }],
    edit: (file, before, after) => ['Edit', { file_path: file, old_string: before, new_string: after }],
  },
  {
    name: 'Codex', package: '@openai/codex', command: 'codex', run: script('@openai', 'codex', 'bin', 'codex.js'),
    read: (file) => ['exec_command', { cmd: `cat '${file}'` }],
    edit: (file, before, after) => ['exec_command', { cmd: `apply_patch <<'END'\n*** Begin Patch\n*** Update File: ${file}\n` +
      `@@\n-${before}\n+${after}\n*** End Patch\nEND\n` }],
  },
  {
    name: 'opencode', npm: 'opencode-ai', package: 'opencode-linux-x64', command: 'opencode', run: program(`opencode-${platform}`, 'bin', 'opencode'),
    read: (file) => ['read', { filePath: file }],
    edit: (file, before, after) => ['edit', { filePath: file, oldString: before, newString: after }],
  },
  {
    name: 'pi', package: '@earendil-works/pi-coding-agent', command: 'pi',
    run: script('@earendil-works', 'pi-coding-agent', 'dist', 'bundle', 'cli.js'),
    read: (file) => ['read', { path: file }],
    edit: (file, before, after) => ['edit', { path: file, edits: [{ oldText: before, newText: after }] }],
  },
  {
    name: 'Cline', npm: 'cline', package: `@cline/cli-${platform}`, command: 'cline', run: program('@cline', `cli-${platform}`, 'bin', 'cline'),
    read: (file) => ['read_files', { files: [{ path: file }] }],
    edit: (file, before, after) => ['editor', { path: file, old_text: before, new_text: after }],
  },
  {
    name: 'Continue', package: '@continuedev/cli', command: 'cn', run: script('@continuedev', 'cli', 'dist', 'cn.js'),
    read: (file) => ['Read', { filepath: file }],
    edit: (file, before, after) => ['Edit', { file_path: file, old_string: before, new_string: after }],
  },
];

export const versionOf = (agent) => JSON.parse(readFileSync(path.join(here, 'package.json'), 'utf8')).dependencies[agent.package];

// What docs/clients.md says of an agent: files of its configuration, each below its path, and the commands of a shell.
export function guideOf({ name }) {
  const text = readFileSync(path.join(root, 'docs/clients.md'), 'utf8');
  const section = text.split(/^### /m).find((part) => part.startsWith(`${name}\n`));
  if (!section) throw new Error(`docs/clients.md has no section "### ${name}"`);
  const files = [...section.matchAll(/^`~\/([^`]+)`:\n+```\w+\n([^]*?)^```$/gm)].map(([, file, body]) => ({ file, body }));
  const [, commands] = /^```sh\n([^]*?)^```$/m.exec(section) ?? [];
  if (!commands) throw new Error(`docs/clients.md shows no commands for ${name}`);
  return { files, commands };
}

async function writeFiles(directory, files) {
  for (const { file, body } of files) {
    const place = path.join(directory, file);
    await mkdir(path.dirname(place), { recursive: true });
    await writeFile(place, body);
  }
}

// A folder with what an agent needs of a machine: a home, a place to work in, its program on the path. Whatever the
// guide says of the server's address, key and model is said of this server.
export class Desk {
  static async start(agent, server, { key, model }) {
    const desk = new Desk();
    desk.directory = await mkdtemp(path.join(tmpdir(), 'fathom-agent-'));
    Object.assign(desk, { agent, home: path.join(desk.directory, 'home'), work: path.join(desk.directory, 'work') });
    const { files, commands } = guideOf(agent);
    const ours = (text) => text.replaceAll('http://127.0.0.1:8000', server.url).replaceAll('sk-fathom', key).replaceAll('tiny-r1', model);
    desk.commands = ours(commands);
    const [program] = agent.run;
    if (!existsSync(agent.run.at(-1))) throw new Error(`${agent.run.at(-1)} is not there: ./dev agents installs it`);
    const words = agent.run.map((word) => `'${word}'`).join(' ');
    await writeFiles(desk.directory, [{ file: `bin/${agent.command}`, body: `#!/bin/sh\nexec ${words} "$@"\n` }]);
    await chmod(path.join(desk.directory, 'bin', agent.command), 0o755);
    await writeFiles(desk.home, files.map(({ file, body }) => ({ file, body: ours(body) })));
    await mkdir(desk.work, { recursive: true });
    return desk;
  }

  file(name) { return path.join(this.work, name); }
  put(name, text) { return writeFile(this.file(name), text); }

  // Runs the guide's commands with this prompt. { code, output }
  async ask(prompt) {
    const env = {
      HOME: this.home, PROMPT: prompt, TMPDIR: this.directory, LANG: 'C.UTF-8', TERM: 'dumb',
      PATH: [path.join(this.directory, 'bin'), path.dirname(node), process.env.PATH].join(':'),
    };
    const child = spawn('sh', ['-eu', '-c', this.commands], { cwd: this.work, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), 5 * patience);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (data) => { output += data; });
    const code = await new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (status, signal) => resolve(signal ?? status));
    });
    clearTimeout(timer);
    return { code, output };
  }

  stop() { return rm(this.directory, { recursive: true, force: true }); }
}
