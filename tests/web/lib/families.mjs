// SPDX-License-Identifier: Apache-2.0
// Model families as the tests of tool calls need them: a chat template of our own, as short as can be, with the marks
// of the family; the special tokens that it uses; the token that ends an answer; and how its models write calls.
// `calls` gets [[name, arguments, id]] and gives the text of the model; `id` is what it writes as a call's id, `ids` what
// an id has to look like.

const lines = (...parts) => parts.join('');

// Turns of a chat; `turn` has a text before and after what each role says, `ask` begins an answer.
const template = ({ tools, turn, call = '', calls = ['', ''], ask }) => lines(
  '{{- bos_token -}}',
  `{%- if tools -%}{{- ${tools[0]} -}}{%- for tool in tools -%}{{- tool.function | tojson -}}{%- endfor -%}{{- ${tools[1]} -}}{%- endif -%}`,
  '{%- for m in messages -%}',
  ...Object.entries(turn).map(([role, [before, after]], i) => lines(
    `{%- ${i ? 'elif' : 'if'} m.role == '${role}' -%}{{- ${before} + (m.content or '') -}}`,
    role !== 'assistant' ? '' :
      `{%- if m.tool_calls -%}{{- ${calls[0] || "''"} -}}{%- for call in m.tool_calls -%}${call}{%- endfor -%}{{- ${calls[1] || "''"} -}}{%- endif -%}`,
    `{{- ${after} -}}`)),
  '{%- endif -%}{%- endfor -%}',
  `{%- if add_generation_prompt -%}{{- ${ask} -}}{%- endif -%}`);

const json = (value) => JSON.stringify(value);

export const deepseek = {
  name: 'DeepSeek-V3.1',
  thinks: true, // where it is asked to
  template: template({
    tools: ["'Tools: '", "'\\n\\n'"],
    turn: {
      system: ["''", "'\\n\\n'"],
      user: ["'<｜User｜>'", "''"],
      tool: ["'<｜tool▁output▁begin｜>'", "'<｜tool▁output▁end｜>'"],
      assistant: ["'<｜Assistant｜></think>'", 'eos_token'],
    },
    calls: ["'<｜tool▁calls▁begin｜>'", "'<｜tool▁calls▁end｜>'"],
    call: "{{- '<｜tool▁call▁begin｜>' + call.function.name + '<｜tool▁sep｜>' + call.function.arguments + '<｜tool▁call▁end｜>' -}}",
    ask: "'<｜Assistant｜>' + ('<think>' if thinking else '</think>')",
  }),
  calls: (list) => `<｜tool▁calls▁begin｜>${list.map(([name, args]) =>
    `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json(args)}<｜tool▁call▁end｜>`).join('')}<｜tool▁calls▁end｜>`,
};

// As strict as Mistral's, Gemma's and Qwen3.5's templates are: one system message, in front, and turns that alternate.
export const alternating = {
  ...deepseek,
  name: 'alternating',
  template: lines(
    "{%- for m in messages -%}{%- if m.role == 'system' and not loop.first -%}{{- raise_exception('system first') -}}{%- endif -%}",
    "{%- set last = (loop.previtem or {}).role -%}",
    "{%- if (m.role == last and m.role != 'tool') or (m.role == 'user' and last == 'tool') -%}{{- raise_exception('alternate') -}}{%- endif -%}",
    '{%- endfor -%}', deepseek.template),
};

export const deepseekV3 = {
  ...deepseek,
  name: 'DeepSeek-V3',
  thinks: false,
  template: template({
    tools: ["'Tools: '", "'\\n\\n'"],
    turn: {
      system: ["''", "'\\n\\n'"],
      user: ["'<｜User｜>'", "''"],
      tool: ["'<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>'", "'<｜tool▁output▁end｜><｜tool▁outputs▁end｜>'"],
      assistant: ["'<｜Assistant｜>'", 'eos_token'],
    },
    calls: ["'<｜tool▁calls▁begin｜>'", "'<｜tool▁calls▁end｜>'"],
    call: "{{- '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.function.name + '\\n```json\\n' + call.function.arguments + '\\n```<｜tool▁call▁end｜>' -}}",
    ask: "'<｜Assistant｜>'",
  }),
  calls: (list) => `<｜tool▁calls▁begin｜>${list.map(([name, args]) =>
    `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json(args)}\n\`\`\`<｜tool▁call▁end｜>`).join('\n')}<｜tool▁calls▁end｜>`,
};

export const deepseekV32 = {
  ...deepseek,
  name: 'DeepSeek-V3.2',
  thinks: false,
  tokens: ['｜DSML｜'],
  template: template({
    tools: ["'Tools, to be called in a <｜DSML｜function_calls> block: '", "'\\n\\n'"],
    turn: {
      system: ["''", "'\\n\\n'"],
      user: ["'<｜User｜>'", "''"],
      tool: ["'<function_results>'", "'</function_results>'"],
      assistant: ["'<｜Assistant｜></think>'", 'eos_token'],
    },
    calls: ["'<｜DSML｜function_calls>\\n'", "'</｜DSML｜function_calls>'"],
    call: lines("{{- '<｜DSML｜invoke name=\"' + call.function.name + '\">\\n' -}}",
      "{%- for name, value in call.function.arguments.items() -%}{{- '<｜DSML｜parameter name=\"' + name + '\" string=\"' + ('true' if value is string else 'false') + '\">' + (value if value is string else value | tojson) + '</｜DSML｜parameter>\\n' -}}{%- endfor -%}",
      "{{- '</｜DSML｜invoke>\\n' -}}"),
    ask: "'<｜Assistant｜></think>'",
  }),
  calls: (list) => `<｜DSML｜function_calls>\n${list.map(([name, args]) =>
    `<｜DSML｜invoke name="${name}">\n${Object.entries(args).map(([key, value]) =>
      `<｜DSML｜parameter name="${key}" string="${typeof value === 'string'}">${typeof value === 'string' ? value : json(value)}</｜DSML｜parameter>\n`).join('')}</｜DSML｜invoke>\n`).join('')}</｜DSML｜function_calls>`,
};

const chatml = {
  system: ["'<|im_start|>system\\n'", "'<|im_end|>\\n'"],
  user: ["'<|im_start|>user\\n'", "'<|im_end|>\\n'"],
  tool: ["'<|im_start|>user\\n<tool_response>\\n'", "'\\n</tool_response><|im_end|>\\n'"],
  assistant: ["'<|im_start|>assistant\\n'", "'<|im_end|>\\n'"],
};

export const hermes = {
  name: 'Hermes and Qwen',
  tokens: ['<|im_start|>', '<|im_end|>', '<tool_call>', '</tool_call>'],
  end: '<|im_end|>',
  template: template({
    tools: ["'<|im_start|>system\\nCall tools in <tool_call></tool_call> tags: '", "'<|im_end|>\\n'"],
    turn: chatml,
    call: "{{- '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' -}}",
    ask: "'<|im_start|>assistant\\n'",
  }),
  calls: (list) => list.map(([name, args]) => `<tool_call>\n${json({ name, arguments: args })}\n</tool_call>`).join('\n'),
};

export const kimi = {
  name: 'Kimi K2',
  tokens: ['<|im_system|>', '<|im_user|>', '<|im_assistant|>', '<|im_middle|>', '<|im_end|>',
    '<|tool_calls_section_begin|>', '<|tool_calls_section_end|>', '<|tool_call_begin|>',
    '<|tool_call_argument_begin|>', '<|tool_call_end|>'],
  end: '<|im_end|>',
  template: template({
    tools: ["'<|im_system|>tool_declare<|im_middle|>'", "'<|im_end|>'"],
    turn: {
      system: ["'<|im_system|>system<|im_middle|>'", "'<|im_end|>'"],
      user: ["'<|im_user|>user<|im_middle|>'", "'<|im_end|>'"],
      tool: ["'<|im_system|>tool<|im_middle|>'", "'<|im_end|>'"],
      assistant: ["'<|im_assistant|>assistant<|im_middle|>'", "'<|im_end|>'"],
    },
    calls: ["'<|tool_calls_section_begin|>'", "'<|tool_calls_section_end|>'"],
    call: "{{- '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' + call.function.arguments + '<|tool_call_end|>' -}}",
    ask: "'<|im_assistant|>assistant<|im_middle|>'",
  }),
  calls: (list) => `<|tool_calls_section_begin|>${list.map(([name, args], i) =>
    `<|tool_call_begin|>functions.${name}:${i}<|tool_call_argument_begin|>${json(args)}<|tool_call_end|>`).join('')}<|tool_calls_section_end|>`,
  id: (name, i) => `functions.${name}:${i}`,
};

export const glm = {
  name: 'GLM 4.5',
  tokens: ['<|system|>', '<|user|>', '<|assistant|>', '<|observation|>', '<tool_call>', '</tool_call>', '<arg_key>',
    '</arg_key>', '<arg_value>', '</arg_value>', '<|endoftext|>'],
  end: '<|user|>',
  template: template({
    tools: ["'<|system|>Tools: '", "'\\n'"],
    turn: {
      system: ["'<|system|>\\n'", "''"],
      user: ["'<|user|>\\n'", "''"],
      tool: ["'<|observation|>\\n<tool_response>\\n'", "'\\n</tool_response>'"],
      assistant: ["'<|assistant|>\\n'", "''"],
    },
    call: lines("{{- '\\n<tool_call>' + call.function.name + '\\n' -}}",
      "{%- for name, value in call.function.arguments.items() -%}{{- '<arg_key>' + name + '</arg_key>\\n<arg_value>' + (value if value is string else value | tojson) + '</arg_value>\\n' -}}{%- endfor -%}",
      "{{- '</tool_call>' -}}"),
    ask: "'<|assistant|>\\n'",
  }),
  calls: (list) => list.map(([name, args]) => `\n<tool_call>${name}\n${Object.entries(args).map(([key, value]) =>
    `<arg_key>${key}</arg_key>\n<arg_value>${typeof value === 'string' ? value : json(value)}</arg_value>\n`).join('')}</tool_call>`).join(''),
};

// Since this release without line ends; here without thoughts.
export const glm47 = {
  ...glm,
  name: 'GLM 4.7',
  template: template({
    tools: ["'<|system|>Tools: '", "'\\n'"],
    turn: {
      system: ["'<|system|>'", "''"],
      user: ["'<|user|>'", "''"],
      tool: ["'<|observation|><tool_response>'", "'</tool_response>'"],
      assistant: ["'<|assistant|></think>'", "''"],
    },
    call: lines("{{- '<tool_call>' + call.function.name -}}",
      "{%- for name, value in call.function.arguments.items() -%}{{- '<arg_key>' + name + '</arg_key><arg_value>' + (value if value is string else value | tojson) + '</arg_value>' -}}{%- endfor -%}",
      "{{- '</tool_call>' -}}"),
    ask: "'<|assistant|></think>'",
  }),
  calls: (list) => list.map(([name, args]) => `<tool_call>${name}${Object.entries(args).map(([key, value]) =>
    `<arg_key>${key}</arg_key><arg_value>${typeof value === 'string' ? value : json(value)}</arg_value>`).join('')}</tool_call>`).join(''),
};

export const llama = {
  name: 'Llama 3.1',
  tokens: ['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>', '<|eom_id|>', '<|python_tag|>'],
  end: '<|eot_id|>',
  template: template({
    tools: ["'<|start_header_id|>system<|end_header_id|>\\n\\nRespond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its value}. Environment: ipython; <|python_tag|>'", "'<|eot_id|>'"],
    turn: {
      system: ["'<|start_header_id|>system<|end_header_id|>\\n\\n'", "'<|eot_id|>'"],
      user: ["'<|start_header_id|>user<|end_header_id|>\\n\\n'", "'<|eot_id|>'"],
      tool: ["'<|start_header_id|>ipython<|end_header_id|>\\n\\n'", "'<|eot_id|>'"],
      assistant: ["'<|start_header_id|>assistant<|end_header_id|>\\n\\n'", "'<|eot_id|>'"],
    },
    call: "{{- '{\"name\": \"' + call.function.name + '\", \"parameters\": ' + (call.function.arguments | tojson) + '}' -}}",
    ask: "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'",
  }),
  calls: (list) => list.map(([name, args]) => json({ name, parameters: args })).join('; '),
};

export const mistral = {
  name: 'Mistral',
  tokens: ['[INST]', '[/INST]', '[AVAILABLE_TOOLS]', '[/AVAILABLE_TOOLS]', '[TOOL_CALLS]', '[TOOL_RESULTS]', '[/TOOL_RESULTS]'],
  template: template({
    tools: ["'[AVAILABLE_TOOLS]['", "'][/AVAILABLE_TOOLS]'"],
    turn: {
      system: ["'[INST]'", "'[/INST]'"],
      user: ["'[INST]'", "'[/INST]'"],
      tool: ["'[TOOL_RESULTS]'", "'[/TOOL_RESULTS]'"],
      assistant: ["''", 'eos_token'],
    },
    calls: ["'[TOOL_CALLS]['", "']'"],
    call: "{{- '{\"name\": \"' + call.function.name + '\", \"arguments\": ' + (call.function.arguments | tojson) + ', \"id\": \"' + call.id + '\"}' + ('' if loop.last else ', ') -}}",
    ask: "''",
  }),
  calls: (list) => `[TOOL_CALLS]${json(list.map(([name, args, id]) => ({ name, arguments: args, id })))}`,
  // The model writes its id behind the arguments, when the call has long been told: it gets one in the form it knows.
  ids: /^[a-zA-Z0-9]{9}$/,
};

export const families = [deepseek, deepseekV3, deepseekV32, hermes, kimi, glm, glm47, llama, mistral];
