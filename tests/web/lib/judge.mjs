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

// JSON.parse keeps the last of equal keys in silence.
function membersOf(value) {
  if (value === null || typeof value !== 'object') return 0;
  const inside = Object.values(value).reduce((sum, member) => sum + membersOf(member), 0);
  return Array.isArray(value) ? inside : inside + Object.keys(value).length;
}

const colonsOf = (text) => text.replace(/"(?:[^"\\]|\\.)*"/gs, '').split(':').length - 1;

// A function that tells what is wrong with a text; null: it is a JSON text of the schema. Throws what ajv has to say
// against the schema.
export function judgeOf(schema) {
  const named = drafts.find(([name]) => String(schema.$schema ?? '').includes(name));
  const validate = named ? compile(named[1], schema) : compileFirst([Ajv2020, Ajv, Ajv4], schema);
  return (text) => {
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      return `no JSON: ${error.message}`;
    }
    if (membersOf(value) !== colonsOf(text)) return 'a key comes twice';
    return validate(value) ? null : JSON.stringify(validate.errors.slice(0, 2));
  };
}
