/* SPDX-License-Identifier: Apache-2.0
 * Every fixed limit of the system, and the relations between limits. They bound tables and
 * messages. Values that an operator may change are options (see `fathom inspect options`).
 */
#pragma once

#define KV_BLOCK_TOKENS 64  /* tokens in a KV block, everywhere: page, host memory, wire, disk */
#define KV_SLICE_ALIGN 4096 /* bytes; each slice of a block is aligned to it */
#define QUANT_GROUP 128     /* channels in an activation group; side of an FP8 weight block */
#define MATMUL_PANEL 32     /* output columns in a packed weight panel */

#define LIMIT_RANKS 1024         /* ranks of a unit */
#define LIMIT_STEP_ROWS 512      /* sequences in one step plan */
#define LIMIT_STEP_TOKENS 16384  /* tokens in one step plan, drafts included */
#define LIMIT_DRAFTS 1           /* tokens drafted after a known token */
#define LIMIT_FORCED 6           /* tokens that a constraint forces after a row's chosen ones */
#define LIMIT_UNIT_REQUESTS 1024 /* requests in a unit, waiting and running */
#define LIMIT_GATEWAY_REQUESTS (1 << 20) /* requests in a gateway */
#define LIMIT_FLEET_UNITS 64             /* units connected to a gateway */
#define LIMIT_FLEET_GATEWAYS 8           /* gateways of a fleet with a manager */
#define LIMIT_WIRE_STRANGERS 128         /* connections that have not completed the handshake */
#define LIMIT_TOP_K_EXPERTS 32           /* num_experts_per_tok */
#define LIMIT_EXPERTS 1024               /* n_routed_experts */
#define LIMIT_LAYERS 256                 /* layers, MTP layers included */
#define LIMIT_STOP_STRINGS 16            /* per request, as in the DeepSeek API */
#define LIMIT_STOP_STRING_BYTES 256
#define LIMIT_STOP_TOKENS 16   /* stop tokens of the model; a request may add as many */
#define LIMIT_PROMPT_FRAME 8   /* tokens that a tokenizer adds on either side of a prompt */
#define LIMIT_LOGIT_BIASES 300 /* tokens in a request's logit_bias */
#define LIMIT_ROW_BIASES (LIMIT_LOGIT_BIASES + 2 * LIMIT_STOP_TOKENS) /* with masked stop tokens */
#define LIMIT_TOP_LOGPROBS 20            /* alternatives reported with each token */
#define LIMIT_CHOICES 16                 /* answers to one prompt (n) */
#define LIMIT_ANSWERS 128                /* answers to one request: prompts times n */
#define LIMIT_TOOLS 512                  /* tools of a request */
#define LIMIT_TOOL_NAME 128              /* bytes */
#define LIMIT_USER_ID 512                /* bytes */
#define LIMIT_CONSTRAINT_BYTES (1 << 19) /* text of a constraint, such as a schema */
#define LIMIT_HISTORY_TOKENS 16384       /* last tokens of a sequence that penalties consider */
#define LIMIT_ACCOUNTS 1024              /* accounts of a gateway */
#define LIMIT_ACCOUNT_KEYS 4096          /* keys of all accounts */
#define LIMIT_ACCOUNT_NAME 63            /* bytes */
#define LIMIT_REQUEST_NAME 128           /* bytes of a client's X-Request-Id */
#define LIMIT_BODY_DEPTH 64              /* levels of a request's JSON */
#define LIMIT_BODY_KEYS 65536            /* keys in a request's JSON */
#define LIMIT_BODY_VALUES 65536          /* other values in a request's JSON */
#define LIMIT_BODY_INTEGERS 16384 /* integers in a request's JSON, except prompts of token ids */
#define LIMIT_TEMPLATE_STEPS (1 << 22) /* steps of a chat template for one request: 20 to 50 ms */
#define LIMIT_PROMPTS_IDS                                                                          \
    (1 << 18) /* token ids of all prompts of a request; a longer context allows more */
#define LIMIT_ORDER_BYTES 4096 /* body of an operator's request */
#define LIMIT_VOCAB (1 << 20)
#define LIMIT_INDEX_DIM 512     /* index_head_dim */
#define LIMIT_STREAMS 8         /* hc_mult */
#define LIMIT_CONTEXT (1 << 20) /* tokens in a sequence */
#define LIMIT_TRANSFERS 2048 /* KV transfers of a rank, in both directions, that have not ended */

_Static_assert(LIMIT_ANSWERS >= LIMIT_CHOICES, "one prompt may ask for the largest n");
_Static_assert(LIMIT_UNIT_REQUESTS >= LIMIT_STEP_ROWS, "a unit holds at least what one step runs");
_Static_assert(QUANT_GROUP % MATMUL_PANEL == 0, "a panel lies within one row of weight blocks");
