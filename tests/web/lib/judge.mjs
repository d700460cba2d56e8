// SPDX-License-Identifier: Apache-2.0
// Judges texts by JSON schemas: ajv, in the draft that a schema names, the newest where it names none.
import { createRequire } from 'node:module';
import Ajv from 'ajv';
import Ajv2019 from 'ajv/dist/2019.js';
import Ajv2020 from 'ajv/dist/2020.js';
import Ajv4 from 'ajv-draft-04';
import addFormats from 'ajv-formats';

const draft6 = createRequire(import.meta.url)('ajv/dist/refs/json-schema-draft-06.json');

// Those that drafts define. ajv-formats has more, which to the drafts are words for people.
const formats = ['date-time', 'date', 'time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uri-reference',
  'uri-template', 'uuid', 'json-pointer', 'relative-json-pointer', 'regex'];

// Numbers beyond a double's are numbers, too; products of fractions are compared to some digits.
const options = { strict: false, strictNumbers: false, logger: false, multipleOfPrecision: 6 };

const drafts = [['2020-12', Ajv2020], ['2019-09', Ajv2019], ['draft-07', Ajv], ['draft-06', Ajv], ['draft-04', Ajv4]];

function compile(Kind, schema) {
  const ajv = new Kind(options);
  addFormats(ajv, formats);
  if (Kind === Ajv) ajv.addMetaSchema(draft6);
  return ajv.compile(schema);
}

// The newest draft that a schema without a name can be of.
function compileFirst([Kind, ...older], schema) {
  try {
    return compile(Kind, schema);
  } catch (error) {
    if (older.length === 0) throw error;
    return compileFirst(older, schema);
  }
}

// The keys of a value's objects, and those that its text has: JSON.parse keeps the last of equal ones in silence.
function keysOf(value) {
  if (value === null || typeof value !== 'object') return [];
  return [...Array.isArray(value) ? [] : Object.keys(value), ...Object.values(value).flatMap(keysOf)];
}
const keysIn = (text) => [...text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?/gs)].filter(([, , colon]) => colon)
  .map(([, string]) => JSON.parse(string));

// Of all that a schema names as properties; of other keys nobody keeps a list, and they may come again.
function namesIn(schema) {
  if (schema === null || typeof schema !== 'object') return [];
  const { properties } = schema;
  const names = properties !== null && typeof properties === 'object' ? Object.keys(properties) : [];
  return [...names, ...Object.values(schema).flatMap(namesIn)];
}

function comesTwice(names, text, value) {
  const written = keysIn(text), kept = keysOf(value);
  if (written.length === kept.length) return false;
  const count = (list, name) => list.filter((key) => key === name).length;
  return written.some((key) => names.has(key) && count(written, key) !== count(kept, key));
}

// A function that tells what is wrong with a text; null: it is a JSON text of the schema. Throws what ajv has to say
// against the schema.
export function judgeOf(schema) {
  const named = drafts.find(([name]) => String(schema.$schema ?? '').includes(name));
  const validate = named ? compile(named[1], schema) : compileFirst([Ajv2020, Ajv, Ajv4], schema);
  const names = new Set(namesIn(schema));
  return (text) => {
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      return `no JSON: ${error.message}`;
    }
    if (comesTwice(names, text, value)) return 'a key comes twice';
    return validate(value) ? null : JSON.stringify(validate.errors.slice(0, 2));
  };
}
