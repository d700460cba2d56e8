// SPDX-License-Identifier: Apache-2.0
// Schemas for answers that end soon whatever the model would like to say: each keyword's way to bound a text.
const name = { type: 'string', maxLength: 12 };
const closed = (properties, more = {}) =>
  ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false, ...more });

export const schemas = {
  'enum': { enum: ['red', 'green', 'blue', 7, null, ['a']] },
  'object': closed({ name, age: { type: 'integer', minimum: 0, maximum: 130 }, married: { type: 'boolean' } }),
  'optional keys': { ...closed({ a: { type: 'boolean' }, b: name, c: { const: 1 } }), required: ['b'] },
  'nested objects': closed({ at: closed({ x: { type: 'integer', minimum: -99, maximum: 99 }, label: name }), tag: { enum: ['p', 'q'] } }),
  'array': { type: 'array', items: { type: 'integer', minimum: 1, maximum: 6 }, minItems: 3, maxItems: 8 },
  'unique items': { type: 'array', items: { enum: ['a', 'b', 'c', 'd'] }, uniqueItems: true, minItems: 2 },
  'prefixItems': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'array', prefixItems: [{ type: 'boolean' }, name], items: false, minItems: 2,
  },
  'pattern': { type: 'string', pattern: '^[A-Z][a-z]{2,6}-[0-9]{3}$' },
  'formats': closed({ id: { type: 'string', format: 'uuid' }, day: { type: 'string', format: 'date' } }),
  'anyOf': { anyOf: [closed({ kind: { const: 'cat' }, lives: { type: 'integer', minimum: 1, maximum: 9 } }),
    closed({ kind: { const: 'dog' }, name })] },
  'definitions': {
    $schema: 'http://json-schema.org/draft-07/schema#',
    definitions: { leaf: closed({ value: { enum: [1, 2, 3] } }) },
    ...closed({ left: { $ref: '#/definitions/leaf' }, right: { $ref: '#/definitions/leaf' } }),
  },
  'if': { ...closed({ kind: { enum: ['a', 'b'] }, size: { type: 'integer', minimum: 0, maximum: 99 } }),
    if: { properties: { kind: { const: 'a' } } }, then: { properties: { size: { maximum: 9 } } } },
  // Long enough for a unit to die in its middle.
  'a long array': { type: 'array', items: { enum: ['lantern', 'otter', 'door'] }, minItems: 30, maxItems: 30 },
};
