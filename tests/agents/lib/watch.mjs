// SPDX-License-Identifier: Apache-2.0
// Stands between an agent and the server, holds both to /openapi.json (tests/web/lib/contract.mjs), and counts the
// tokens that the server reports. What the agent sends is not kept.
import { Contract } from '../../web/lib/contract.mjs';

const json = (text) => { try { return JSON.parse(text); } catch { return null; } };

// The last usage of an answer, whole or streamed, in the words of each API.
function usageOf(answered) {
  const events = answered.trimStart().startsWith('{') ? [answered] :
    answered.split('\n').filter((line) => line.startsWith('data: {')).map((line) => line.slice(6));
  const usages = events.map(json).map((event) => event?.usage ?? event?.response?.usage ?? event?.message?.usage).filter(Boolean);
  if (!usages.length) return null;
  const usage = Object.assign({}, ...usages); // Anthropic's comes in two halves
  const cached = usage.cache_read_input_tokens ?? (usage.prompt_tokens_details ?? usage.input_tokens_details)?.cached_tokens;
  const prompt = usage.prompt_tokens ?? usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
  return { prompt, cached, answer: usage.completion_tokens ?? usage.output_tokens };
}

export class Watch extends Contract {
  answers = []; // { path, status, tools, warning, prompt, cached, answer }, in the order in which they ended
  failures = [];

  check(exchange) {
    super.check(exchange);
    const { path, status, headers, sent, answered, method } = exchange;
    if (method !== 'POST') return;
    if (status >= 400) this.failures.push(`${path} ${status}: ${answered}`);
    const usage = usageOf(answered);
    if (usage) this.answers.push({ path, status, tools: json(sent)?.tools?.length ?? 0, warning: headers['x-fathom-warning'], ...usage });
  }
}
