// SPDX-License-Identifier: Apache-2.0
// Starts and stops the server under test, and reads its metrics.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../../', import.meta.url));
export const binary = process.env.FATHOM_BINARY ?? `${root}build/fathom`;

// Whatever must happen is waited for with patience: a busy machine fails nothing.
export const patience = 120000;

// Options of a server that takes 20 ms for a token of one answer, on any machine: for tests that need to do
// something before an answer is over.
export const slow = ['--cpu-mask', 'c', '--threads', '1'];

// Options that give the same answers, to the last token, on every x86 machine with AVX2.
export const same = ['--cpu-mask', 'avx512'];

// A request's usage without the counts of drafted tokens: how many are drafted depends on the machine's speed.
export function lasting(usage) {
  const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected, ...details } =
    usage.completion_tokens_details ?? {};
  return { ...usage, completion_tokens_details: details };
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export class Server {
  // Resolves when the server has printed its addresses: `url` for clients, `admin` for /metrics and /debug.
  static start(...options) { return Server.launch('serve', ...options); }

  static async launch(command, ...options) {
    const server = new this();
    const port = options.includes('--port') ? [] : ['--port', '0'];
    server.child = spawn(binary, [command, ...port, ...options],
      { stdio: ['ignore', 'pipe', 'pipe'] });
    server.log = '';
    server.child.stderr.on('data', (data) => { server.log += data; });
    server.exited = once(server.child, 'exit').then(([code, signal]) => ({ code, signal }));
    let out = '';
    await new Promise((resolve, reject) => {
      const look = () => {
        server.url = /^listening on (http:\S+)\n/m.exec(out)?.[1];
        server.admin = /operator is listened to url=(http:\S+)\n/.exec(server.log)?.[1];
        if (server.url && server.admin) resolve();
      };
      server.child.on('error', reject);
      server.child.stdout.on('data', (data) => { out += data; look(); });
      server.child.stderr.on('data', look);
      server.exited.then(({ code, signal }) =>
        reject(new Error(`the server ended with ${signal ?? code}: ${server.log}`)));
    });
    return server;
  }

  get port() { return Number(new URL(this.url).port); }

  // { code, signal, ms }
  async stop(signal = 'SIGTERM') {
    const began = performance.now();
    this.child.kill(signal);
    const killer = setTimeout(() => this.child.kill('SIGKILL'), 10 * patience);
    const result = await this.exited;
    clearTimeout(killer);
    return { ...result, ms: performance.now() - began };
  }

  async post(path, body, options = {}) {
    return fetch(this.url + path, {
      method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body), ...options,
    });
  }

  // Sends bytes; resolves with all that comes back until the server closes, or until `ms` are over.
  raw(pieces, ms = patience, pause = 0, url = this.url) {
    return new Promise((resolve) => {
      const socket = net.connect(Number(new URL(url).port), '127.0.0.1');
      let received = '', closed = false;
      const end = () => {
        clearTimeout(timer);
        socket.destroy();
        resolve({ received, closed });
      };
      const timer = setTimeout(end, ms);
      socket.on('data', (data) => { received += data.toString('latin1'); });
      socket.on('error', () => {});
      socket.on('close', () => { closed = true; end(); });
      (async () => {
        for (const piece of [pieces].flat()) {
          if (socket.destroyed) return;
          socket.write(piece);
          if (pause) await sleep(pause);
        }
      })();
    });
  }

  // Every sample of /metrics by its name with labels.
  async metrics() {
    const text = await (await fetch(`${this.admin}/metrics`, { headers: this.operator ?? {} })).text();
    return parseMetrics(text);
  }

  // Waits until `holds(metrics)`; returns the metrics, whatever they are when patience ends.
  async until(holds) {
    let metrics;
    for (const end = Date.now() + patience; Date.now() < end; await sleep(50)) {
      metrics = await this.metrics();
      if (holds(metrics)) break;
    }
    return metrics;
  }

  // Waits until nothing is held, waiting or running.
  quiet() {
    return this.until((metrics) => !metrics['fathom_kv_pages{state="held"}'] &&
      !metrics.fathom_requests_running && !metrics.fathom_requests_waiting && !metrics.fathom_requests_held);
  }
}

export function parseMetrics(text) {
  const samples = {};
  for (const line of text.split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const match = /^([a-zA-Z_:][\w:]*(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})?) (\S+)$/.exec(line);
    if (!match || Number.isNaN(Number(match[2]))) throw new Error(`no sample: ${line}`);
    if (match[1] in samples) throw new Error(`twice: ${line}`);
    samples[match[1]] = Number(match[2]);
  }
  return samples;
}
